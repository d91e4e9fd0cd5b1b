"""The life of a run, checked against a small specification."""
