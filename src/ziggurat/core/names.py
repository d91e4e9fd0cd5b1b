"""The module of each name that is loaded lazily. Written by tests/test_names.py from the faces."""

# fmt: off
NAMES: dict[str, dict[str, str]] = {
    "ziggurat": {
        "agents.agent": "Agent",
        "agents.callbacks": "Callbacks",
        "agents.runnable": "Runnable",
        "agents.stop": "loop_detection stop_when until_tool_called",
        "core.context": "Context Key",
        "core.errors": "ConfigurationError Denied Timeout ToolError ZigguratError",
        "core.event": "Event",
        "core.service": "Service layer stack",
        "core.stream": "open_stream",
        "messages.agent": "AgentRequest AgentRun Approve Deny Modify",
        "messages.message": "Image Message Text ToolCall ToolResult user",
        "messages.middleware": "Middleware",
        "messages.model": "ModelRequest ModelResponse ModelSettings",
        "messages.usage": "Budget Usage",
        "tools.approval": "Approvals Rule",
        "tools.function": "raw_tool tool",
        "tools.toolbox": "Toolbox",
    },
    "ziggurat.agents": {
        "agents.agent": "Agent",
        "agents.checkpoints": "Checkpoints",
        "agents.handle": "RunHandle",
        "agents.output": "Output",
        "agents.remote_agent": "a2a",
        "agents.runnable": "Runnable",
        "agents.steering": "Steerable",
        "agents.stop": "Advice Progress max_steps stop_when until_no_tool_calls until_tool_called",
        "agents.tool_input": "AGENT_INPUT",
        "messages.agent": (
            "AgentRequest AgentRun Answer Approve Decision Deny DidNotHappen Happened Modify PendingItem "
        ),
        "messages.usage": "Budget",
        "runs.options": "Environment",
        "runs.runs": "runs_of",
        "tools.approval": "Approvals Rule",
    },
    "ziggurat.code": {
        "code.deep": "LargeResults Todos deep_agent",
        "code.recursive": "recursive_agent",
        "code.tool": "CodeTool",
        "code.workspace": "Workspace",
    },
    "ziggurat.compaction": {
        "agents.compaction.middleware": "Compaction at_fraction over_messages over_tokens over_turns",
        "agents.compaction.reducers": "Concatenate Drop Excerpt Mask Recent Summary",
        "agents.compaction.turns": (
            "TokenBudget TurnCount entity_density keyword_density recency_decay weighted_importance "
        ),
    },
    "ziggurat.core": {
        "core.context": "CLOCK Context Key root",
        "core.service": "Service stack",
        "core.settings": "PositiveInt",
    },
    "ziggurat.errors": {
        "core.errors": (
            "AlreadyDecided CallerError CircuitOpen ConfigurationError ContextOverflow Denied EmptyPrompt "
            "InvalidArguments JournalCorrupt JournalError JournalMismatch LeaseHeld LeaseLost LimitExceeded "
            "MailboxFull MissingExtra ModelError ModelRetry NotRepeatable RunExists RunInProgress RunNotFound "
            "ServiceError StoreError StoreUnavailable StreamInterrupted Suspend Timeout ToolError ZigguratError "
            "is_transient "
        ),
    },
    "ziggurat.events": {
        "agents.callbacks": "Callbacks",
        "agents.partial": "partial_values",
        "core.event": (
            "CacheHit ChildEnded ChildStarted CircuitChanged Diverged Dropped Event Joined Queued Retrying "
            "Skipped UnderPressure "
        ),
        "core.stream": "open_stream",
        "memory.merging": "MemoriesMerged",
        "messages.events": (
            "AgentEnded AgentStarted ApprovalDecided ApprovalExecuted ApprovalRequested Compacted Delta HandedOff "
            "LoopWarning MemoryRecalled MemoryStored MiddlewareCompleted MiddlewareStarted ModelEnded "
            "ModelStarted NodeChanged Steered StepEnded StepStarted ToolAbandoned ToolDelta ToolEnded ToolStarted "
            "Warned "
        ),
        "messages.message": "Fold TextDelta ThinkingDelta ToolCallDelta",
    },
    "ziggurat.fake_provider": {
        "testing.server.provider": "FakeProvider",
        "testing.server.quirk": "Quirk cut stall status",
    },
    "ziggurat.fleet": {
        "fleet.backend": "RedisBackend",
        "fleet.coordination": "RedisJob RedisLeader RedisQueue",
    },
    "ziggurat.flows": {
        "agents.continue_as_new": "continue_as_new",
        "agents.flow": "Flow flow",
        "agents.recurrence": "cron every",
        "agents.schedule": "schedule",
        "calls.awaited": "ask event sleep",
        "calls.gather": "first gather quorum settled",
        "calls.step": "step",
        "runs.sending": "send",
    },
    "ziggurat.http": {
        "http.fetcher": "Fetcher",
    },
    "ziggurat.journal": {
        "journal.journal": "LocalJournal",
        "journal.rows": "accept_loss",
        "journal.store": "LogInfo Row Store",
    },
    "ziggurat.knowledge": {
        "agents.knowledge": "graph_tools",
        "knowledge.entities": "Entity EntityNotFound GraphError Relation",
        "knowledge.graph": "KnowledgeGraph",
        "knowledge.store": "GraphStore",
    },
    "ziggurat.mcp": {
        "mcp.answers": "Elicitation",
        "mcp.client": "McpClient",
        "mcp.door": "mcp mcp_servers",
        "mcp.oauth": "OAuth",
    },
    "ziggurat.memory": {
        "agents.memory": "FactsBy Note Remembering everything_said memory_tools",
        "memory.agent_memory": "AgentMemory",
        "memory.consolidating": "CompressionPolicy ConsolidationPolicy compression consolidation",
        "memory.kinds": "EpisodicMemory LongTermMemory SemanticMemory WorkingMemory",
        "memory.maintenance": "Maintenance",
        "memory.merging": "MergeRequest",
        "memory.record": "MemoryRecord",
        "memory.scoring": (
            "ScoringInputs frequency half_life hybrid importance lowest oldest product recency retention "
            "similarity weighted "
        ),
        "memory.search": "Bounds",
        "memory.similar": "TfIdf",
        "memory.store": "MemoryStore Query open_memory",
        "memory.upkeep": "audit export_memories import_memories",
        "memory.words": "CONTEXT",
    },
    "ziggurat.messages": {
        "agents.values": "decode_run encode_run",
        "messages.conversation": "Rewrite Transcript",
        "messages.items": (
            "HandoffItem MessageItem RunItem ToolCallItem ToolOutputItem filter_by_type items_to_messages "
            "messages_to_items to_messages "
        ),
        "messages.message": (
            "Audio File Image Message Text Thinking ToolCall ToolResult assistant decode_messages encode_messages "
            "system tool_call tool_message user "
        ),
        "messages.middleware": "RewriteRequest",
        "messages.model": "Embeddings EmbedRequest Model ModelRequest ModelResponse ModelSettings ToolSpec",
        "messages.usage": "Usage estimate_tokens expected_tokens used_tokens",
        "messages.validation": "ValidationPolicy validate validate_all",
        "models.openai.to_wire": "to_openai",
        "wires.reading": "from_openai",
    },
    "ziggurat.middleware": {
        "messages.middleware": "Middleware",
        "middleware.dynamic": "AllowTools DynamicPrompt DynamicTools Trim",
        "middleware.log": "Logging PromptCacheGuard",
        "middleware.redaction": "Redaction",
        "middleware.wrapping": "OutputGuardrail everywhere",
    },
    "ziggurat.models": {
        "models.embed": "http_embedder resolve_embedder",
        "models.function": "FunctionModel",
        "models.react_protocol.layer": "react",
        "models.react_protocol.protocol": "FINAL_ANSWER",
        "models.real": "require_real_calls_allowed",
    },
    "ziggurat.observe": {
        "messages.usage": "cost",
        "observe.console": "ConsoleView",
        "observe.jsonl": "JsonFormatter JsonLines RunFilter",
        "observe.metrics": "Metrics",
        "observe.otel": "OpenTelemetry",
        "observe.picture": "diagram_svg",
    },
    "ziggurat.plans": {
        "plans.executing": "plan_execute",
        "plans.graph": "Graph",
        "plans.htn": (
            "Compound DepthExceeded Method NoMethodFound NoPlan NoPreconditionSatisfied Planner Primitive "
            "SearchLimitExceeded StepLimitExceeded htn_flow "
        ),
        "plans.nodes": "Branch Loop Map Parallel PlanResult Sequence Task",
        "plans.state": "append merge",
        "plans.state_graph": "StateGraph",
        "plans.statuses": "node_statuses",
        "plans.trees": "workflow",
        "plans.variables": "agent_condition contains when",
    },
    "ziggurat.providers": {
        "http.limits": "Limits",
        "models.http.providers": (
            "anthropic azure cerebras deepseek fireworks gemini groq llamacpp lmstudio mistral ollama openai "
            "openai_responses openrouter together vllm xai "
        ),
        "models.local.catalogue": "install",
        "models.local.templated": "local",
        "models.resolving": "PROVIDERS known_models resolve",
        "models.selection": "select_model",
    },
    "ziggurat.runtime": {
        "agents.runtime": "Runtime",
        "runtime.bus": "Broadcast Bus BusClosed Lagged Role Specific",
        "runtime.directory": "Capability Directory",
        "runtime.supervisor": "Child ChildNotStarted RestartsExceeded Shutdown Supervisor",
    },
    "ziggurat.sandbox": {
        "sandbox.command": "Shell",
        "sandbox.sandbox": "ProgramError Sandbox",
    },
    "ziggurat.serve": {
        "serve.application": "app",
        "serve.mcp.inputs": "ask_client",
        "serve.mcp.offering": "McpServer resource",
    },
    "ziggurat.skills": {
        "skills.persona": "Persona Personas",
        "skills.registry": "Skills",
        "skills.skill": "Skill",
    },
    "ziggurat.stops": {
        "messages.stops": (
            "BudgetExceeded Cancelled Completed Continued Failed Incomplete LoopDetected MaxSteps ModelCallDenied "
            "Stop StopCondition Suspended TimedOut ToolCalled status_of "
        ),
    },
    "ziggurat.stores": {
        "runs.pending": "pending",
        "stores.addresses": "connect",
        "stores.file": "FileStore",
        "stores.local": "InMemoryStore",
        "stores.postgres": "PostgresStore",
        "stores.session": "Session",
        "stores.sqlite": "SqliteStore",
    },
    "ziggurat.teams": {
        "teams.delegating": "background",
        "teams.desk": "handoffs",
        "teams.handoff": (
            "Handoff HandoffPolicy HandoffState HandoffTool any_handoff composite_handoff explicit_handoff "
            "multi_handoff sequential_handoff "
        ),
        "teams.result": "TeamResult",
        "teams.rounds": "debate majority mesh parallel ring star",
        "teams.swarming": "swarm",
        "teams.turns": "group_chat ledger_team",
    },
    "ziggurat.tools": {
        "tools.builtin": "calculator echo timestamp",
        "tools.entry": "Tool",
        "tools.function": "FunctionTool raw_tool tool",
        "tools.permissions": "PermissionLog",
        "tools.results": "process_result",
        "tools.toolbox": "Toolbox quorum_join",
        "tools.validator": "SchemaValidator",
    },
}
