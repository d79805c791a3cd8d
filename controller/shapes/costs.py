"""What was spent."""

from typing_extensions import TypedDict

from reconcile.queries.costs import Account


class ShareShape(TypedDict):
    """What bears a name cost, in how many runs."""

    name: str
    cost: float
    runs: int


class CostsShape(TypedDict):
    """Shares, the dearest first, and what all cost together; a trigger with several tags stands under each."""

    items: list[ShareShape]
    next_cursor: None
    cost: float
    runs: int


def costs_shape(account: Account) -> CostsShape:
    items: list[ShareShape] = [{"name": one.name, "cost": one.amount, "runs": one.runs} for one in account.shares]
    return {"items": items, "next_cursor": None, "cost": account.amount, "runs": account.runs}
