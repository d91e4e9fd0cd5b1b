"""Personas as instructions, and the one in use."""

import asyncio

import pytest

from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError
from ziggurat.skills import Persona, Personas
from ziggurat.testing import ScriptedModel


async def test_a_persona_is_the_instructions_of_an_agent() -> None:
    persona = Persona("Ada", "a reviewer", "concise", "Review code.", ("Be fair.", "Be brief."))
    model = ScriptedModel("done")
    await Agent(model, instructions=persona).run("Go")
    instructions = model.calls[0].instructions or ""
    assert instructions.splitlines()[:2] == ["You are Ada, a reviewer.", "Review code."]
    assert instructions.endswith("- Be fair.\n- Be brief.")
    assert persona.apply("Hi") == f"[System]: {persona.text}\n[User]: Hi"
    assert "unnamed" not in Persona(instructions="x").text


async def test_the_persona_in_use_is_restored_and_belongs_to_the_task() -> None:
    personas = Personas(Persona("mine"))
    assert personas.names == ["assistant", "coder", "critic", "mine", "researcher", "teacher"]
    assert personas.current is None

    async def inside(name: str) -> Persona | None:
        with personas.use(name):
            await asyncio.sleep(0)
            return personas.current

    with personas.use("coder"):
        with personas.use("critic") as critic:
            assert personas.current == critic
        assert personas.current == personas.get("coder")
        assert await asyncio.gather(*map(inside, personas.names)) == [personas.get(name) for name in personas.names]
        model = ScriptedModel("done")
        await Agent(model, instructions=personas).run("Go")
        assert model.calls[0].instructions == personas.get("coder").text
    assert personas.current is None
    personas.register(Persona("coder", "changed"))
    assert personas.get("coder").role == "changed"
    with pytest.raises(ConfigurationError, match="coder"):
        personas.get("codre")


# -- as the persona module of agent runtimes has it ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tone"),
    [
        ("assistant", "casual"),
        ("researcher", "formal"),
        ("coder", "technical"),
        ("critic", "concise"),
        ("teacher", "casual"),
    ],
)
def test_the_built_in_personas_have_their_tones(name: str, tone: str) -> None:
    persona = Personas().get(name)
    assert persona.tone == tone
    assert name not in persona.text.partition("\n")[2]
    assert persona.text.splitlines()[0].startswith(f"You are {name}, a")


def test_the_defaults_of_a_persona() -> None:
    persona = Persona()
    assert (persona.name, persona.role, persona.tone) == ("unnamed", "", "formal")
    assert (persona.instructions, persona.constraints) == ("", ())
    assert len(persona.text.splitlines()) == 1


async def test_personas_are_applied_registered_and_used_in_a_scope() -> None:
    personas = Personas()
    prompt = personas.get("coder").apply("implement binary search")
    assert prompt.startswith("[System]: You are coder")
    assert prompt.endswith("\n[User]: implement binary search")

    personas.register(
        Persona(
            name="legal",
            role="a legal analyst",
            tone="formal",
            instructions="Analyse with care.",
            constraints=("Always cite the jurisdiction.",),
        )
    )
    text = personas.get("legal").text
    assert "legal analyst" in text
    assert "Analyse with care." in text
    assert text.endswith("- Always cite the jurisdiction.")

    with personas.use("coder") as persona:
        assert persona.name == "coder"
    assert personas.current is None
    with pytest.raises(KeyError), personas.use("legal"):
        raise KeyError
    assert personas.current is None


@pytest.mark.parametrize(
    "settings", [{"tone": "loud"}, {"name": 7}, {"role": None}, {"constraints": "Be kind."}, {"constraints": [1]}]
)
def test_a_persona_with_a_wrong_value_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Persona(**wrong(settings))
