"""Names of countries and states, which say where a place in front of them is: "Turin, Italy". Data."""

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(name for part in text.splitlines() for name in part.strip().split(", ") if name)


REGIONS: Final = _names(
    """
    afghanistan, albania, algeria, andorra, angola, argentina, armenia, australia, austria, azerbaijan
    bahamas
    bahrain, bangladesh, barbados, belarus, belgium, belize, benin, bhutan, bolivia, bosnia, botswana, brazil
    brunei, bulgaria, burkina faso, burundi, cambodia, cameroon, canada, cape verde, chad, chile, china
    colombia
    comoros, congo, costa rica, croatia, cuba, cyprus, czechia, czech republic, denmark, djibouti, dominica
    ecuador, egypt, el salvador, eritrea, estonia, eswatini, ethiopia, fiji, finland, france, gabon, gambia
    georgia, germany, ghana, greece, grenada, guatemala, guinea, guyana, haiti, honduras, hungary
    iceland, india
    indonesia, iran, iraq, ireland, israel, italy, ivory coast, jamaica, japan, jordan, kazakhstan, kenya
    kiribati, kosovo, kuwait, kyrgyzstan, laos, latvia, lebanon, lesotho, liberia, libya, liechtenstein
    lithuania, luxembourg, madagascar, malawi, malaysia, maldives, mali, malta, mauritania, mauritius, mexico
    micronesia, moldova, monaco, mongolia, montenegro, morocco, mozambique, myanmar, namibia, nauru, nepal
    netherlands, the netherlands, holland, new zealand, nicaragua, niger, nigeria, north korea, macedonia
    north macedonia, norway, oman, pakistan, palau, palestine, panama, papua new guinea, paraguay, peru
    philippines, poland, portugal, qatar, romania, russia, rwanda, samoa, san marino, saudi arabia, senegal
    serbia, seychelles, sierra leone, singapore, slovakia, slovenia, somalia, south africa, south korea, korea
    south sudan, spain, sri lanka, sudan, suriname, sweden, switzerland, syria, taiwan, tajikistan, tanzania
    thailand, togo, tonga, tunisia, turkey, türkiye, turkmenistan, tuvalu, uganda, ukraine, uae, uk, usa, us
    united arab emirates, united kingdom, united states, great britain, britain, england, scotland, wales
    northern ireland, uruguay, uzbekistan, vanuatu, venezuela, vietnam, yemen, zambia, zimbabwe
    alabama, alaska
    arizona, arkansas, california, colorado, connecticut, delaware, florida, hawaii, idaho, illinois, indiana
    iowa, kansas, kentucky, louisiana, maine, maryland, massachusetts, michigan, minnesota, mississippi
    missouri, montana, nebraska, nevada, new hampshire, new jersey, new mexico, new york, north carolina
    north dakota, ohio, oklahoma, oregon, pennsylvania, rhode island, south carolina, south dakota, tennessee
    texas, utah, vermont, virginia, washington, west virginia, wisconsin, wyoming, ontario, quebec, alberta
    british columbia, manitoba, nova scotia, saskatchewan, queensland, victoria, new south wales, tasmania
    bavaria, saxony, prussia, catalonia, andalusia, tuscany, sicily, sardinia, piedmont, lombardy, burgundy
    brittany, normandy, provence, bohemia, moravia, silesia, crete, corsica, siberia, punjab, kerala
    europe, asia, africa, america, north america, south america, oceania
    """
)
"""Names in lower case."""
