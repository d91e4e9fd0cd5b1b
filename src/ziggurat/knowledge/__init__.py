"""What is known as a graph: entities, the relations between them, and what follows from both."""
