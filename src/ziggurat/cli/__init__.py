"""The command line.

- Commands and their help: `app`, `app_runs`, `app_control`, `app_serve`, `app_memory`, with shared `options`. `main` is
  the entry point, `exit_codes` defines the exit codes.
- Implementations: `run`, `chat`, `resume` (also approve, replay and fork), `records` (runs, export, vacuum), `waiting`
  (pending, recover), `control` (send, attach, cancel, inject), `worker` (submit, worker), `serve`, `show`, `memories`,
  `memory_transfer`, `models`, `doctor` with `check_model`, `pytest_file`.
- From options to an agent: `question`, `load`, `build`, `agent_options`.
- Terminal input and output: `terminal`, with `approve`, `report` and `providers`. `store` finds the store and the run
  of a command.
"""
