"""Calls: the stages that a call goes through, each written once.

`model_call`, `tool_call` and `enter`, for agents, are the three stations; every call passes `hooks` and the `gate`.
"""
