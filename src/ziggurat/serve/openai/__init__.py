"""The APIs of OpenAI and Anthropic: any of their clients can talk to an agent."""
