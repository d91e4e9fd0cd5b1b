# Written by tests/test_names.py from __init__.py.
from ziggurat.plans.graph import Graph as Graph
from ziggurat.plans.graph import StateGraph as StateGraph
from ziggurat.plans.graph_parts import END as END
from ziggurat.plans.graph_parts import START as START
from ziggurat.plans.graph_run import NodeEnded as NodeEnded
from ziggurat.plans.graph_run import NodeStarted as NodeStarted
from ziggurat.plans.reducers import append as append
from ziggurat.plans.reducers import merge as merge

__all__: list[str]
