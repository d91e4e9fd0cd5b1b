"""Agents: a model and tools in a loop; the verbs that run, resume, replay, fork and steer it.

- The public classes: `agent`, `runnable` (run, stream, start, resume, replay, fork), `records` (pending, subscribe,
  attach), `callbacks`, `as_tool` with `tool_input`, `handle`, `attached`; `blocking` runs one from code that is not
  async. `checkpoints` lists where a run can be forked. `drawing`: pictures of what an agent is made of.
- `flow`: a typed async function as a run, with `flow_input` and `flow_program`. `program`: how the code of a flow or
  a team is run. `inherited`: the rules that an agent or a flow passes on to what is below it.
- `queue`: the verbs that leave runs to a `worker`, which drives what is due; `recovery` does so once.
- `schedule` starts runs at recurring times.
- A run of an agent: `starter`, `loop` with its state, `loop_run`; its calls are in the room `calls`.
- When a loop stops: `stop`, `loop_detection`. What counts as an answer: `reply`, `output`, `partial`,
  `output_validator`.
- What changes a running loop: `steering` (from outside), `concurrent` (agents side by side).
- What can be added to an agent: `compaction`, `memory`, `knowledge`. An agent with all of it: `runtime`.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.agent": ("Agent", "AgentArguments"),
        "agents.as_tool": ("AgentTool",),
        "agents.attached": ("AttachedRun", "RunStatus"),
        "agents.callbacks": ("Callbacks",),
        "agents.checkpoints": ("Checkpoint", "Checkpoints"),
        "agents.handle": ("RunHandle",),
        "agents.loop": ("AgentLoop",),
        "agents.loop_detection": ("LoopAction", "LoopMode"),
        "agents.output": ("Output",),
        "agents.output_validator": ("OutputValidator",),
        "agents.recovery": ("Recovery",),
        "agents.worker": ("Worker",),
        "agents.runnable": ("Runnable",),
        "agents.steering": ("STEERABLE", "Steerable", "Steering"),
        "agents.stop": (
            "Advice",
            "BasePolicy",
            "MAX_STEPS",
            "Policy",
            "Progress",
            "StopPolicy",
            "Verdict",
            "all_of",
            "any_of",
            "max_steps",
            "max_tool_calls",
            "natural_end",
            "not_",
            "stop_when",
            "until_no_tool_calls",
            "until_tool_called",
        ),
        "agents.tool_input": ("AGENT_INPUT",),
        "messages.agent": (
            "AgentRequest",
            "AgentRun",
            "Answer",
            "Approve",
            "Decision",
            "Decisions",
            "Deny",
            "DidNotHappen",
            "Happened",
            "Modify",
            "PendingItem",
        ),
        "messages.budget": ("Budget",),
        "messages.steer": ("Place", "Steer"),
        "messages.step": ("Step",),
        "runs.options": ("Environment", "RunArguments"),
        "runs.local": ("runs_of",),
        "tools.approval": ("Approvals", "Approver", "Rule"),
    },
)
