"""How similar an embedder makes questions and memories that belong together, and those that do not.

`Bounds` has the figures of the embedded sentence model as its defaults.
"""

import math
from statistics import fmean, pstdev

from ziggurat.core.context import root
from ziggurat.memory import Bounds
from ziggurat.memory.vectorizing import embed
from ziggurat.memory.vectors import similarities
from ziggurat.messages.model import Embedder

_SELDOM = 2.054
"""Standard deviations below the mean where 2 % of a normal distribution lie."""


async def calibrate(embedder: Embedder, *, memories: int = 10) -> Bounds:
    """Return the bounds for an embedder, from its cosines of forty facts with a question about each (`PAIRS`).

    The floor is where one in fifty of the questions would lose its fact, by the mean and the standard deviation of
    their cosines. Certain is what the best of some unrelated memories reaches in at most one of twenty questions: a
    doubt about the right memory does less harm than no doubt about a wrong one.
    """
    ctx = root("calibrate")
    facts = await embed(embedder, [fact for fact, _ in PAIRS], "document", ctx)
    questions = await embed(embedder, [question for _, question in PAIRS], "query", ctx)
    cosines = [similarities(question, facts.vectors) for question in questions.vectors]
    related = [row[place] for place, row in enumerate(cosines)]
    unrelated = sorted(cosine for at, row in enumerate(cosines) for place, cosine in enumerate(row) if at != place)
    floor = fmean(related) - _SELDOM * pstdev(related)
    return Bounds(round(floor, 2), round(_seldom_reached(unrelated, memories), 2))


def _seldom_reached(unrelated: list[float], memories: int) -> float:
    """Return the cosine that the best of some unrelated memories reaches in at most one of twenty questions."""
    place = math.ceil(math.pow(0.95, 1 / memories) * len(unrelated))
    return unrelated[min(place, len(unrelated) - 1)]


PAIRS = (
    ("The recycling is collected every second Thursday.", "When does the paper bin have to be out?"),
    ("My grandmother grew up on a farm near Ghent.", "Where did granny spend her childhood?"),
    ("The spare key is with the neighbour on the ground floor.", "Who can let me in if I lock myself out?"),
    ("The invoice of the roofers came to 4,300.", "How much did the work on the roof cost?"),
    ("Maya is afraid of spiders.", "What is Maya scared of?"),
    ("The release is built from the branch called stable.", "Which line of code do we ship from?"),
    ("We met at a concert in Leipzig.", "How did we get to know each other?"),
    ("The router's password is written under the lid.", "Where do I find the code for the wifi?"),
    ("Our anniversary is on the ninth of May.", "On what day did we marry?"),
    ("He takes his pills with breakfast.", "When is his medicine due?"),
    ("The tomatoes need water every evening.", "How often must the vegetables be watered?"),
    ("Professor Lind supervises the project.", "Who is in charge of our study?"),
    ("The printer on the second floor jams with thick paper.", "Why does printing the cards fail?"),
    ("Tickets can be returned until two days before the show.", "Can I still get my money back for the theatre?"),
    ("Her favourite painter is Paul Klee.", "Whose pictures does she like best?"),
    ("The team meets every Tuesday at ten.", "When is our weekly call?"),
    ("The backup runs at three at night.", "At what hour are copies of the data made?"),
    ("The kitchen was painted green last summer.", "What colour are the walls where we cook?"),
    ("Ibrahim speaks French with his children.", "Which language is used in Ibrahim's family?"),
    ("The nearest chemist is beside the station.", "Where can I buy plasters?"),
    ("My bicycle was stolen in October.", "What happened to my bike?"),
    ("The contract ends after twelve months.", "How long am I bound by the agreement?"),
    ("Salt is kept in the blue jar.", "Where is the seasoning?"),
    ("She finished the marathon in under four hours.", "How fast did she run the race?"),
    ("Dogs are not allowed on the beach in July.", "May we take the puppy to the sea?"),
    ("The heating is switched off from May on.", "Why are the radiators cold?"),
    ("The museum is closed on Mondays.", "On which day can we not see the exhibition?"),
    ("The old laptop has only eight gigabytes of memory.", "How much RAM is in my former computer?"),
    ("Peter borrowed the ladder.", "Who has got our steps?"),
    ("I read detective stories before I sleep.", "What kind of books do I like at bedtime?"),
    ("The bakery sells rye bread on Saturdays only.", "When can I get a dark loaf?"),
    ("Alerts are sent to the channel called night-watch.", "Where do warnings of the system appear?"),
    ("Our guests do not drink alcohol.", "What should I not offer the visitors?"),
    ("The bridge is being repaired until spring.", "Why must I take another road across the river?"),
    ("The insurance covers damage by hail.", "Who pays if ice breaks the windows?"),
    ("The baby weighs nine kilos.", "How heavy is our little one?"),
    ("The choir rehearses in the old school.", "Where do we sing?"),
    ("The deposit was paid by card.", "How did I settle the advance?"),
    ("Glasses must be washed by hand.", "What must not go into the dishwasher?"),
    ("The map of the hiking trail is in the drawer.", "Where did I leave the plan for our walk?"),
)
"""Facts and questions about each in other words, every one about something else."""
