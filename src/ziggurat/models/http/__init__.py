"""What all providers share: how they differ, event streams, the way over the network, and its failures."""
