"""Skills are found by the words of a task, and put together by name or by task."""

from ziggurat.skills import Skill, Skills


def main() -> None:
    skills = Skills(
        Skill(
            name="web-search",
            description="Find current information on the web",
            metadata={"author": "core", "capabilities": "search, web, retrieval"},
            instructions="Search twice.",
        ),
        Skill(
            name="summarise",
            description="Shorten a long text to a summary",
            metadata={"version": "1.2.0", "author": "core", "capabilities": "nlp, summarise, text"},
            instructions="Write three sentences.",
        ),
        Skill(
            name="translate",
            description="Translate a text between languages",
            metadata={"author": "languages", "capabilities": "nlp, translation, language"},
            instructions="Keep the tone.",
        ),
    )
    for match in skills.find("Search the web for news and summarise them", limit=3):
        print(f"{match.skill.name} {match.score:.2f}")
    print(skills.compose(["web-search", "summarise"]))
    print(skills.compose_for_task("Translate a letter and summarise it", limit=2))


if __name__ == "__main__":
    main()
