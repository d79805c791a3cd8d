"""Histories that can be trusted: verified, signed for, made current again, and moved (R-10, R-11)."""

import json
from itertools import chain
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from controller.api.context import Asking, Here
from controller.api.progress import NDJSON, Accept, answered
from controller.api.uploads import Uploaded, described, up_to
from controller.services import Services
from controller.shapes.histories import (
    CheckpointShape,
    ImportedShape,
    ReplayShape,
    ReportShape,
    imported_shape,
    replay_shape,
    report_shape,
)
from reconcile.observations.observation import Progress
from reconcile.triggers.history.rebuild import compare_tables, rebuild_tables
from reconcile.triggers.history.transfer import export_database, import_database
from reconcile.triggers.history.verify import sign_checkpoint, verify_histories
from revisions.errors import Invalid, Malformed
from revisions.history import checkpoints
from revisions.history.signing import PrivateKey, PublicKey
from revisions.ids import TriggerKey, name_faults

router = APIRouter(tags=["histories"])
LARGEST_CHECKPOINT = 256 * 1024 * 1024

Checkpoint = Annotated[BinaryIO, Depends(up_to(LARGEST_CHECKPOINT))]
Pin = Annotated[str | None, Query(description="the key that must have signed; left out, the one that is configured")]
Unverified = Annotated[bool, Query(description="also with broken chains, which is refused otherwise")]
OneTrigger = Annotated[str | None, Query(description="project/domain/task/name; left out, all")]


@router.get("/verify", response_model=ReportShape)
def verify(here: Here, trigger: OneTrigger = None, accept: Accept = "") -> Response:
    """Walks the hash chains and names what is broken first, trigger by trigger."""
    key = _key(trigger)
    return answered(accept, lambda progress: report_shape(verify_histories(here.database, key, None, progress)))


@router.post("/verify", response_model=ReportShape, openapi_extra=described("application/json", "a checkpoint"))
def verify_against(
    here: Here, file: Checkpoint, trigger: OneTrigger = None, public_key: Pin = None, accept: Accept = ""
) -> Response:
    """Walks the chains up to the heads of a checkpoint, whose signature is checked first."""
    key = _key(trigger)
    checkpoint = checkpoints.read(_json(file), expected_key(here, public_key))
    return answered(accept, lambda progress: report_shape(verify_histories(here.database, key, checkpoint, progress)))


@router.get("/checkpoint", response_model=CheckpointShape)
def checkpoint(here: Here, unverified: Unverified = False, accept: Accept = "") -> Response:
    """The heads of all triggers as they are now, signed with the configured key; their chains are verified before."""
    key = signing_key(here)
    return answered(
        accept, lambda progress: sign_checkpoint(here.database, key, unverified=unverified, progress=progress)
    )


@router.get("/rebuild", response_model=ReplayShape)
def compare(here: Here, accept: Accept = "") -> Response:
    """What replaying all revisions would change in the current tables."""
    return answered(accept, lambda progress: replay_shape(compare_tables(here.database, progress), applied=False))


@router.post("/rebuild", response_model=ReplayShape)
def rebuild(here: Here, caller: Asking, accept: Accept = "") -> Response:
    """Makes the current tables what the revisions say; answers what differed."""
    return answered(
        accept,
        lambda progress: replay_shape(
            rebuild_tables(here.database, here.observations, caller.actor, progress), applied=True
        ),
    )


@router.get("/export", response_class=Response, responses={200: {"content": {NDJSON: {}}}})
def export(here: Here, unverified: Unverified = False) -> StreamingResponse:
    """Everything that is true, its chains verified before, line by line; the last line says that it is whole."""
    key = signing_key(here) if here.settings.checkpoint_key_file else None
    parts = export_database(here.database, key, unverified=unverified)
    first = next(parts)  # a refusal comes before the answer begins
    return StreamingResponse(chain([first], parts), media_type=NDJSON)


@router.post("/import", response_model=ImportedShape, openapi_extra=described(NDJSON, "what `/export` answered"))
def load(here: Here, caller: Asking, file: Uploaded, public_key: Pin = None, accept: Accept = "") -> Response:
    """Takes an export into a database that holds nothing yet."""
    expected = expected_key(here, public_key)

    def work(progress: Progress) -> Any:
        must_be_signed = public_key is not None
        return imported_shape(
            import_database(
                here.database,
                here.observations,
                file,
                caller.actor,
                expected,
                must_be_signed=must_be_signed,
                progress=progress,
            )
        )

    return answered(accept, work)


def signing_key(here: Services) -> PrivateKey:
    """The key that signs checkpoints. Raises Invalid when there is none, saying how to come by one."""
    path = here.settings.checkpoint_key_file
    if path is None:
        hint = "`triggerctl checkpoint --new-key FILE` makes one, TRIGGERCTL_CHECKPOINT_KEY_FILE=FILE names it"
        raise Invalid.at("checkpoint_key_file", "no key signs checkpoints", hint)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        raise Invalid.at("checkpoint_key_file", f"{path} cannot be read", "name a file that can") from None
    return PrivateKey.parse(text, "checkpoint_key_file")


def expected_key(here: Services, given: str | None) -> PublicKey | None:
    """The key that must have signed: the one that is named, else the configured one, else that of the own key."""
    if given is not None:
        return PublicKey.parse(given)
    if here.settings.checkpoint_public_key is not None:
        return PublicKey.parse(here.settings.checkpoint_public_key, "checkpoint_public_key")
    return signing_key(here).public if here.settings.checkpoint_key_file else None


def _key(trigger: str | None) -> TriggerKey | None:
    if trigger is None:
        return None
    key = TriggerKey.parse(trigger)
    if faults := name_faults("", **key._asdict()):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return key


def _json(file: BinaryIO) -> Any:
    try:
        return json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the checkpoint is not JSON: {error}") from None
