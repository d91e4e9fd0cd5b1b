"""Tool calls, thoughts and answers for models that only write text: the ReAct protocol."""
