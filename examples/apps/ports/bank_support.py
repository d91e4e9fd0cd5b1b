"""Support of a bank: dependencies, instructions for each customer, a typed answer (pydantic-ai: bank_support)."""

import asyncio
import sqlite3
from contextlib import closing

from msgspec import Struct

from ziggurat import Agent, Context, Key
from ziggurat.messages import Model


class Customer(Struct):
    id: int
    db: sqlite3.Connection

    def read(self, column: str) -> object:
        row = self.db.execute(f"SELECT {column} FROM customers WHERE id = ?", (self.id,)).fetchone()  # noqa: S608
        if row is None:
            raise LookupError(f"there is no customer {self.id}")
        return row[0]


class Support(Struct):
    advice: str
    block_card: bool
    risk: int


CUSTOMER = Key[Customer]("customer")


async def balance(ctx: Context) -> str:
    """Get the customer's current balance."""
    return f"${ctx.scope[CUSTOMER].read('balance'):.2f}"


def instructions(ctx: Context) -> str:
    return (
        "You are a support agent of our bank. Help the customer and judge the risk of the request. "
        f"Address the customer, {ctx.scope[CUSTOMER].read('name')}, by name."
    )


async def main(model: str | Model) -> None:
    agent = Agent(model, tools=[balance], instructions=instructions, output=Support)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE customers(id, name, balance)")
        db.execute("INSERT INTO customers VALUES (123, 'John', 123.45)")
        deps = {CUSTOMER: Customer(123, db)}
        for question in ("What is my balance?", "I just lost my card!"):
            print((await agent.run(question, deps=deps)).output)


if __name__ == "__main__":
    asyncio.run(main("openai:gpt-5-mini"))
