"""The command line: what each command takes, what it does, and what they share.

- Commands and their help: `app`, `app_runs`, `app_memory`, with `options`; they begin in `main`, and end in `codes`.
- What they do: `run`, `chat`, `again` (resume, approve, replay, fork), `records` (runs, export, vacuum), `show`,
  `memories`, `models`, `doctor` with `examine`, `pytest_file`.
- An agent from options: `question`, `load`, `build`; `wish` and `made` keep how it was made with its run.
- For people: `approve`, `report`, `providers`; `store` finds what a command works on.
"""
