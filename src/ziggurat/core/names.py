"""The module of each name that is loaded lazily. Written by tests/test_names.py from the faces."""

# fmt: off
NAMES: dict[str, dict[str, str]] = {
    "ziggurat": {
        "agents.agent": "Agent",
        "agents.callbacks": "Callbacks",
        "agents.runnable": "Runnable",
        "agents.stop": "loop_detection stop_when until_tool_called",
        "core.context": "Context",
        "core.errors": "ConfigurationError Denied Timeout ToolError ZigguratError",
        "core.event": "Event",
        "core.layer": "layer stack",
        "core.scope": "Key",
        "core.service": "Service",
        "core.stream": "open_stream",
        "messages.agent": "AgentRequest AgentRun Approve Deny Modify",
        "messages.budget": "Budget",
        "messages.message": "Message user",
        "messages.middleware": "Middleware",
        "messages.model": "ModelRequest ModelResponse ModelSettings",
        "messages.parts": "Image Text ToolCall ToolResult",
        "messages.usage": "Usage",
        "tools.approval": "Approvals Rule",
        "tools.function": "raw_tool tool",
        "tools.toolbox": "Toolbox",
    },
    "ziggurat.agents": {
        "agents.agent": "Agent AgentArguments",
        "agents.as_tool": "AgentTool",
        "agents.attached": "AttachedRun RunStatus",
        "agents.callbacks": "Callbacks",
        "agents.checkpoints": "Checkpoint Checkpoints",
        "agents.handle": "RunHandle",
        "agents.loop": "AgentLoop",
        "agents.output": "Output",
        "agents.reply": "OutputValidator",
        "agents.runnable": "Runnable",
        "agents.steering": "STEERABLE Steerable Steering",
        "agents.stop": (
            "MAX_STEPS Advice BasePolicy LoopAction LoopMode Policy Progress StopPolicy Verdict all_of any_of "
            "max_steps max_tool_calls natural_end not_ stop_when until_no_tool_calls until_tool_called "
        ),
        "agents.tool_input": "AGENT_INPUT",
        "agents.worker": "Recovery Worker",
        "messages.agent": (
            "AgentRequest AgentRun Answer Approve Decision Decisions Deny DidNotHappen Happened Modify "
            "PendingItem "
        ),
        "messages.budget": "Budget",
        "messages.steer": "Place Steer",
        "messages.step": "Step",
        "runs.local": "runs_of",
        "runs.options": "Environment RunArguments",
        "tools.approval": "Approvals Approver Rule",
    },
    "ziggurat.compaction": {
        "agents.compaction.excerpts": "Excerpt Recent Selector units",
        "agents.compaction.middleware": "Compaction Trigger at_fraction over_messages over_tokens over_turns",
        "agents.compaction.reducers": "Concatenate Drop Mask Reducer Summary",
        "agents.compaction.turns": (
            "Importance Shortened TokenBudget Turn TurnCount TurnCountResult composite entity_density "
            "keyword_density recency_decay "
        ),
    },
    "ziggurat.core": {
        "core.clock": "CLOCK IDS RANDOM SYSTEM_CLOCK Clock SystemClock new_id",
        "core.combinator": "Combinator",
        "core.context": "JOURNAL RUN_ID Context Journal root",
        "core.diagram": "DIAGRAM Diagram DiagramEdge DiagramNode",
        "core.facts": "COMPOSITE EFFECT NAME Effect Fact fact name_of",
        "core.journal": "LocalJournal journal_of",
        "core.layer": "Layer stack",
        "core.live": "LiveBuffer LiveMessages LiveReader Send SupportsLiveMessages",
        "core.queue": "Claim InboxItem Queue",
        "core.scope": "Key Scope",
        "core.service": "Service",
        "core.settings": (
            "Fraction NonEmptyText NonNegativeFloat NonNegativeInt NonNegativeSeconds PositiveFloat PositiveInt "
            "Seconds SecondsOrForever checked "
        ),
        "core.store": "LogInfo LogMark Row Store SupportsChangeSignal SupportsImmediateWrites SupportsLogMarks",
        "core.stored_rows": "accept_loss",
        "core.stream": "EventStream open_stream",
    },
    "ziggurat.errors": {
        "core.errors": (
            "AlreadyDecided CircuitOpen ConfigurationError ContextOverflow Denied EmptyPrompt ForeignError "
            "InvalidArguments JournalCorrupt JournalError JournalMismatch LeaseHeld LeaseLost LimitExceeded "
            "MissingExtra ModelError ModelErrorKind ModelRetry NotRepeatable ProcessLost RecordEnds RunExists "
            "RunNotFound ServiceError StoreError StoreUnavailable StreamInterrupted Suspend Timeout ToolError "
            "ToolErrorKind ZigguratError is_transient "
        ),
    },
    "ziggurat.events": {
        "agents.callbacks": "Callbacks",
        "agents.partial": "partial_values",
        "core.broadcast": "SubscribedItem",
        "core.event": (
            "CacheHit CircuitChanged Diverged Dropped Event Joined Listener PerRun Queued Retrying Skipped "
            "UnderPressure "
        ),
        "core.stream": "EventStream open_stream",
        "memory.merging": "MemoriesMerged",
        "messages.delta": "DeltaFilter Fold PartDelta TextDelta ThinkingDelta ToolCallDelta WholePart",
        "messages.events": (
            "AgentEnded AgentStarted AnyEvent ApprovalDecided ApprovalExecuted ApprovalRequested Compacted Delta "
            "HandedOff LoopWarning MemoryRecalled MemoryStored MiddlewareCompleted MiddlewareStarted ModelEnded "
            "ModelStarted NodeChanged NodeStatus Steered StepEnded StepStarted ToolAbandoned ToolDelta ToolEnded "
            "ToolStarted Warned "
        ),
    },
    "ziggurat.fake_provider": {
        "testing.server": "FakeProvider Quirk ReceivedRequest cut stall status",
    },
    "ziggurat.flows": {
        "agents.flow": "Flow flow",
        "agents.schedule": "Schedule schedule",
        "calls.call_decision": "Question question_of",
        "calls.event": "event",
        "calls.gather": "first gather quorum settled",
        "calls.question": "ask",
        "calls.step": "Arguments Step step",
        "calls.waiting": "sleep",
        "core.clock": "Cron Every Recurrence cron due_ticks every",
        "runs.sending": "send",
    },
    "ziggurat.http": {
        "http.fetcher": "Fetched Fetcher",
    },
    "ziggurat.knowledge": {
        "agents.knowledge": "graph_tools",
        "knowledge.entities": "Entity Relation",
        "knowledge.graph": "Direction KnowledgeGraph dot mermaid networkx_graph",
        "knowledge.store": "GraphStore",
    },
    "ziggurat.memory": {
        "agents.memory": "FactsBy Note Remembering WorkingValues everything_said memory_tools",
        "memory.agent_memory": "AgentMemory",
        "memory.calibrating": "Bounds calibrate",
        "memory.consolidating": "CompressionPolicy ConsolidationPolicy compression consolidation",
        "memory.kinds": "EpisodicMemory SemanticMemory WorkingMemory",
        "memory.longterm": "LongTermMemory",
        "memory.maintenance": "Maintenance",
        "memory.merging": "MemoriesMerged MergePolicy MergeReport MergeRequest",
        "memory.record": "MemoryRecord",
        "memory.scoring": (
            "Score ScoringInputs decayed frequency half_life hybrid importance lowest oldest product recency "
            "retention similarity weighted "
        ),
        "memory.search": "Recalled",
        "memory.similar": "TfIdf find_same",
        "memory.store": "Hit MemoryStore Query open_memory",
        "memory.stores.local": "LocalMemoryStore",
        "memory.upkeep": "Finding MemoryAudit audit export_memories import_memories",
        "memory.vectorizing": "reembed",
        "memory.words": "CONTEXT",
    },
    "ziggurat.messages": {
        "messages.budget": "expected_tokens used_tokens",
        "messages.conversation": "Conversation Transcript",
        "messages.embedding": "Embeddings EmbedRequest",
        "messages.items": (
            "HandoffItem MessageItem RunItem ToolCallItem ToolOutputItem filter_by_type items_to_messages "
            "messages_to_items to_messages "
        ),
        "messages.message": "Message Role assistant system tool_message user",
        "messages.model": (
            "Effect FinishReason Model ModelRequest ModelResponse ModelSettings OutputSchema ToolSpec "
        ),
        "messages.parts": "Audio File Image Part Text Thinking ToolCall ToolErrorKind ToolResult tool_call",
        "messages.rewriting": "OriginalMessages Rewrite RewriteRequest",
        "messages.usage": "Usage estimate_tokens",
        "messages.validation": "ValidationPolicy Violation ViolationCode validate validate_all",
    },
    "ziggurat.middleware": {
        "messages.caller": "CALLER Caller ParsedAnswer",
        "messages.middleware": "Middleware",
        "middleware.around": "everywhere",
        "middleware.dynamic": "AllowTools DynamicPrompt DynamicTools",
        "middleware.guardrail": "OutputGuardrail",
        "middleware.log": "HookCounts Logging",
        "middleware.prompt_cache": "PromptCacheGuard",
        "middleware.redaction": "Redaction",
        "middleware.trim": "Trim",
        "middleware.usage": "Accounts UsageAccounting",
    },
    "ziggurat.models": {
        "messages.embedding": "Embeddings EmbedRequest",
        "messages.model": "Model ModelRequest ModelResponse ModelSettings",
        "models.embed.endpoint": "HttpEmbedder http_embedder",
        "models.embed.resolve": "cached resolve_embedder",
        "models.function": "FunctionModel",
        "models.http.dialect": "window_of",
        "models.local": "EmbeddedModel TemplatedModel install installed",
        "models.local.minilm": "MiniLm",
        "models.react_protocol.layer": "react",
        "models.react_protocol.parser": "ReactParser",
        "models.react_protocol.prompt": "FINAL_ANSWER",
        "models.real": "allow_real_calls forbid_real_calls require_real_calls_allowed",
        "models.replay": "ReplayModel",
        "models.reply": "model_facts",
        "models.resolving": "PROVIDERS known_models resolve",
        "models.scripted": "PAUSE Pause ScriptedModel ScriptedReply",
    },
    "ziggurat.observe": {
        "messages.price": "cost",
        "observe.console": "ConsoleView",
        "observe.jsonl": "JsonLines",
        "observe.logs": "JsonFormatter RunFilter",
        "observe.metrics": "CallStatistics Metrics",
        "observe.otel": "MeterProvider OpenTelemetry TracerProvider",
        "observe.picture": "diagram_svg",
        "observe.price": "Costs",
        "observe.run_node": "NodeKind RunNode",
        "observe.tree": "RunTree run_tree",
    },
    "ziggurat.plans": {
        "plans.conditions": "Condition asked contains when",
        "plans.executing": "ExecutedPlan ExecutedStep PlannedStep Verification plan_execute",
        "plans.graph": "Graph",
        "plans.graph_parts": "END START GraphPoint",
        "plans.htn": (
            "Compound DepthExceeded HtnPlan HtnStep Method NoMethodFound NoPlan NoPreconditionSatisfied Planner "
            "Primitive Refusal SearchLimitExceeded StepLimitExceeded htn_flow "
        ),
        "plans.nodes": "Branch Loop Map Node Parallel Sequence Task",
        "plans.reducers": "append merge",
        "plans.result": "NodeResult PlanResult",
        "plans.state_graph": "StateGraph",
        "plans.statuses": "draw_plan node_statuses",
        "plans.trees": "workflow",
    },
    "ziggurat.providers": {
        "http.limits": "Limits",
        "http.user_client": "UserClient",
        "models.http.dialect": "DIALECTS Dialect",
        "models.http.providers": (
            "Provider anthropic azure cerebras deepseek fireworks gemini groq llamacpp lmstudio mistral ollama "
            "openai openai_responses openrouter provider together vllm xai "
        ),
        "models.local": "install local",
        "models.resolving": "PROVIDERS known_models resolve",
        "models.selection": "SelectedModel select_model",
    },
    "ziggurat.runtime": {
        "agents.runtime": "Runtime",
        "runtime.bus": (
            "Address Broadcast Bus BusClosed BusMessage BusStatistics Lagged Role Specific Subscription "
        ),
        "runtime.directory": "Directory Health Match Registration",
    },
    "ziggurat.serve": {
        "serve.application": "ServedApp app",
    },
    "ziggurat.stops": {
        "messages.stops": (
            "BudgetExceeded Cancelled Completed Failed Incomplete LoopDetected MaxSteps ModelCallDenied Stop "
            "StopCondition Suspended TimedOut ToolCalled status_of "
        ),
    },
    "ziggurat.stores": {
        "core.live": "LiveBuffer LiveMessages LiveReader Send SupportsLiveMessages",
        "core.queue": "Claim InboxItem Queue",
        "core.store": "LogInfo LogMark Row Store SupportsChangeSignal SupportsImmediateWrites SupportsLogMarks",
        "stores.addresses": "connect",
        "stores.file.store": "FileStore",
        "stores.local": "LocalLogs",
        "stores.postgres.store": "PostgresStore",
        "stores.session": "Conflict Session",
        "stores.sqlite.store": "SqliteStore",
    },
    "ziggurat.teams": {
        "teams.chatting": "group_chat",
        "teams.debating": "debate",
        "teams.delegating": "background",
        "teams.desk": "handoffs",
        "teams.handoff": (
            "Handoff HandoffPolicy HandoffState HandoffTool any_handoff composite_handoff explicit_handoff "
            "multi_handoff sequential_handoff "
        ),
        "teams.planning": "ledger_team",
        "teams.program": "TeamArguments",
        "teams.result": "TeamResult",
        "teams.rounds": "majority mesh parallel ring star",
        "teams.swarming": "Subtask swarm",
        "teams.visibility": "Visibility",
    },
    "ziggurat.tools": {
        "messages.parts": "ToolCall ToolResult tool_call",
        "tools.approval": "Approvals Approver Rule",
        "tools.builtin": "calculator echo timestamp",
        "tools.function": "FunctionTool raw_tool tool",
        "tools.permissions": "PERMISSIONS PermissionCheck PermissionLog Permissions",
        "tools.signature": "RawSchema Signature",
        "tools.toolbox": "Quorum Tool Toolbox ToolStatistics quorum",
        "tools.validator": "SchemaValidator",
    },
}
