# Written by tests/test_names.py from __init__.py.
from ziggurat.plans.conditions import Condition as Condition
from ziggurat.plans.conditions import asked as asked
from ziggurat.plans.conditions import contains as contains
from ziggurat.plans.conditions import when as when
from ziggurat.plans.graph import Graph as Graph
from ziggurat.plans.graph import StateGraph as StateGraph
from ziggurat.plans.graph_parts import END as END
from ziggurat.plans.graph_parts import START as START
from ziggurat.plans.graph_run import NodeEnded as NodeEnded
from ziggurat.plans.graph_run import NodeStarted as NodeStarted
from ziggurat.plans.nodes import Branch as Branch
from ziggurat.plans.nodes import Loop as Loop
from ziggurat.plans.nodes import Map as Map
from ziggurat.plans.nodes import Node as Node
from ziggurat.plans.nodes import Parallel as Parallel
from ziggurat.plans.nodes import Sequence as Sequence
from ziggurat.plans.nodes import Task as Task
from ziggurat.plans.reducers import append as append
from ziggurat.plans.reducers import merge as merge
from ziggurat.plans.result import NodeResult as NodeResult
from ziggurat.plans.result import PlanResult as PlanResult
from ziggurat.plans.trees import workflow as workflow

__all__: list[str]
