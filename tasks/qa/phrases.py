"""The sentences of the articles, by kind of thing. Data only; `articles` chooses among them.

A kind has one opening and several facts, each in more than one wording, and asides that state no fact that
is asked for. A name in braces is a field of the thing.
"""

from dataclasses import dataclass

from ors_server_tasks.qa.world import (
    Book,
    Company,
    Entity,
    Expedition,
    Mountain,
    Museum,
    Person,
    Region,
    River,
    Town,
)


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences about a kind of thing."""

    opening: tuple[str, ...]
    """Wordings of the first sentence."""
    facts: tuple[tuple[str, ...], ...]
    """For each fact its wordings; facts come in a random order."""
    asides: tuple[str, ...]
    """Two of them come between the facts."""


PHRASES: dict[type[Entity], Phrases] = {
    Region: Phrases(
        ("{name} is one of the country's regions.", "{name} is a region in the interior of the country."),
        (
            ("Its capital is {capital}.", "The seat of its assembly is {capital}."),
            (
                "It covers {area:,} square kilometres.",
                "The region has an area of {area:,} square kilometres.",
            ),
            ("It was made a region in {founded}.", "Its charter was granted in {founded}."),
        ),
        (
            "Its coat of arms shows a heron over three waves.",
            "Most of its people live in small towns, and winters there are long.",
            "Its dialect is known for swallowing the ends of words.",
            "The assembly meets twice a year, in spring and in autumn.",
        ),
    ),
    Mountain: Phrases(
        ("{name} is a mountain in {region}.", "{name} is one of the high mountains of {region}."),
        (
            ("Its summit stands {height:,} metres above the sea.", "It is {height:,} metres high."),
            (
                "The first ascent was made by {climber} in {climbed}.",
                "Nobody reached the summit before {climber}, who climbed it in {climbed}.",
                "In {climbed} {climber} became the first to climb it.",
            ),
        ),
        (
            "Its northern face is under snow for most of the year.",
            "Shepherds have grazed its lower slopes for centuries.",
            "A hut below the ridge shelters walkers in bad weather.",
            "The rock is dark and breaks easily, which makes the way up dangerous after rain.",
        ),
    ),
    River: Phrases(
        ("The {name} is a river.", "The {name} is one of the rivers of the country."),
        (
            ("It rises on {source}.", "Its springs lie high on {source}.", "It comes down from {source}."),
            (
                "After {length:,} kilometres it reaches the {mouth} Sea.",
                "It flows into the {mouth} Sea after a course of {length:,} kilometres.",
            ),
            ("Most of its course lies in {region}.", "The greater part of its valley belongs to {region}."),
            (
                "Those who live on its banks call it the {alias}.",
                "In the dialect of its valley it is the {alias}.",
            ),
        ),
        (
            "Floods in spring have changed its bed more than once.",
            "Barges carried timber on it until the railway came.",
            "Its water is clear and cold, and trout are caught in the upper course.",
            "Two old mills on its left bank still turn.",
        ),
    ),
    Town: Phrases(
        (
            "{name} is a town in {region}.",
            "{name} is a town in the region of {region}.",
            "The town of {name} belongs to {region}.",
        ),
        (
            (
                "It stands on the {river}.",
                "The {river} flows through it.",
                "It lies on the banks of the {river}.",
            ),
            (
                "At the last census it had {population:,} inhabitants.",
                "Its population is {population:,}.",
                "The last census counted {population:,} people there.",
            ),
            ("It was founded in {founded}.", "Its founding charter dates from {founded}."),
            ("Until a fire destroyed most of it, it was called {alias}.", "Its former name is {alias}."),
            ("The town is known for {trade}.", "For centuries it has lived from {trade}."),
        ),
        (
            "A market is held in the main square on Thursdays.",
            "The town hall has a clock that is famous for running late.",
            "Its walls were taken down when the railway came.",
            "Storks nest on the roofs of the old quarter.",
            "The school by the bridge is older than the bridge.",
        ),
    ),
    Person: Phrases(
        (
            "{full_name} was {an_profession}.",
            "{full_name}, known as {name}, was {an_profession}.",
            "{full_name} made a name as {an_profession}.",
        ),
        (
            (
                "{name} was born on {birthday} in {birthplace}.",
                "Born in {birthplace} on {birthday}, {name} grew up there.",
                "{name} came into the world in {birthplace} on {birthday}.",
            ),
            (
                "The decisive teacher was {teacher}.",
                "{name} was a pupil of {teacher}.",
                "As a student {name} was taught by {teacher}.",
            ),
        ),
        (
            "Friends remembered a dry humour and a dislike of letters.",
            "Several notebooks have survived; one of them is written in cipher.",
            "A street and a small planet carry the name.",
            "In later years the eyes grew weak, and the work was dictated.",
            "Little is known of the years of travel.",
        ),
    ),
    Company: Phrases(
        ("{name} is a maker of {product}.", "{name} is a company that makes {product}."),
        (
            (
                "It was founded by {founder} in {founded}.",
                "{founder} founded it in {founded}.",
                "It goes back to a workshop that {founder} opened in {founded}.",
            ),
            (
                "Its head office is in {seat}.",
                "It has its seat in {seat}.",
                "The company is based in {seat}.",
            ),
            ("It employs {employees:,} people.", "{employees:,} people work there."),
        ),
        (
            "Its catalogue, printed every autumn, is collected by some.",
            "A strike stopped the works for a whole summer.",
            "It exports most of what it makes.",
            "The trade mark, a fish with a key, has never changed.",
        ),
    ),
    Book: Phrases(
        ("{name} is a novel.", "{name} is a book in three parts.", "{name} is a novel that is still read."),
        (
            (
                "It was written by {author}.",
                "Its author is {author}.",
                "{author} wrote it in a single winter.",
            ),
            (
                "{publisher} published it in {year}.",
                "It came out in {year} with {publisher}, which printed books beside its other wares.",
            ),
            ("The first edition has {pages} pages.", "It is {pages} pages long."),
        ),
        (
            "Critics praised the dialogues and complained of the ending.",
            "It has been put on the stage twice.",
            "The manuscript was thought to be lost for many years.",
            "School editions leave out the second chapter.",
        ),
    ),
    Expedition: Phrases(
        (
            "The {name} was a journey to {mountain}.",
            "The {name} set out to map the country around {mountain}.",
        ),
        (
            ("It was led by {leader}.", "Its leader was {leader}.", "{leader} commanded it."),
            ("It started from {start} in {year}.", "In {year} it left {start}."),
            ("It had {members} members.", "{members} people took part in it."),
            ("They were back after {days} days.", "It lasted {days} days."),
        ),
        (
            "A diary of the cook was printed later.",
            "Two of the mules that carried the instruments were never found.",
            "Its maps were used for half a century.",
            "Bad weather held it up at the very beginning.",
        ),
    ),
    Museum: Phrases(
        ("The {name} is a museum in {town}.", "The {name} stands in the centre of {town}."),
        (
            (
                "The building was designed by {architect} and opened in {opened}.",
                "{architect} built it; it opened in {opened}.",
                "It opened in {opened}, in a building by {architect}.",
            ),
            ("It shows {exhibits:,} exhibits.", "Its collection has {exhibits:,} pieces."),
        ),
        (
            "Entry is free on the first Sunday of a month.",
            "A whale's skeleton hangs in the great hall.",
            "Its library may be used on request.",
            "The roof had to be repaired after a storm.",
        ),
    ),
}
