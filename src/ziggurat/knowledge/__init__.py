"""Knowledge graphs: entities, relations between them, and algorithms on both."""
