"""What all hosted providers share: `providers` makes their models.

`dialect` lists how they differ, `service` is the model for every wire format, `strict_schema` checks schemas for strict
modes, `headers` reads when to retry, `failures` turns error replies into typed errors without the key.
"""
