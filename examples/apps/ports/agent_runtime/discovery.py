"""An agent registers its capabilities, and others find it by tags, latency, cost and health."""

from ziggurat.runtime import Capability, Directory


def main() -> None:
    directory = Directory(ttl=60)
    directory.register(
        "summariser-1",
        Capability(["nlp", "summarise", "text"], "summarise-text", latency=0.25, cost=0.002),
        value="http://summariser-1:8080",
    )
    for match in directory.query(["nlp"], preferred=["summarise"], max_latency=0.5, max_cost=0.01):
        print(f"{match.name} at {match.registration.value}: {match.score:.2f}")
    directory.heartbeat("summariser-1", "healthy")
    print("evicted:", directory.evict())


if __name__ == "__main__":
    main()
