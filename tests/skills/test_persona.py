"""Personas as instructions, and the one in use."""

import asyncio

import pytest

from ziggurat import Agent, ConfigurationError
from ziggurat.models import ScriptedModel
from ziggurat.skills import Persona, Personas


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
