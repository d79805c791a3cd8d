"""All histories at once: verify, checkpoint, rebuild, export, import (R-10, R-11)."""

import json
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, BinaryIO, Final

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from controller.api.answers import NDJSON, AcceptHeader, Answer, Time, answer_long_work
from controller.api.bodies import documented_upload, upload
from controller.api.parameters import CallerDep, ServicesDep
from controller.auth.requirements import Projects, require
from controller.services import expected_key, signing_key
from reconcile.decide.authority import Role
from reconcile.observations.observation import Progress
from reconcile.triggers.history.rebuild import Replay, compare_tables, rebuild_tables
from reconcile.triggers.history.transfer import Imported, export_database, import_database
from reconcile.triggers.history.verify import Report, sign_checkpoint, verify_histories
from revisions.errors import Malformed
from revisions.history import checkpoints
from revisions.history.chain_breaks import ChainBreak
from revisions.ids import TriggerKey, name_faults, utc_text
from revisions.spec.reading import refuse

router = APIRouter(tags=["histories"])
LARGEST_CHECKPOINT: Final = 256 * 1024 * 1024
_VIEW = require(Role.VIEWER, Projects.ALL)
_ADMIN = require(Role.ADMIN, Projects.ALL)

CheckpointFile = Annotated[BinaryIO, Depends(upload(LARGEST_CHECKPOINT))]
ExportFile = Annotated[BinaryIO, Depends(upload(None))]
KeyQuery = Annotated[str | None, Query(description="public key that must have signed; left out: the configured one")]
UnverifiedQuery = Annotated[bool, Query(description="also if chains are broken, which is refused otherwise")]
TriggerQuery = Annotated[str | None, Query(description="project/domain/task/name; left out: all triggers")]


class BreakOut(Answer):
    """First break in a trigger's history; `field` is the column that differs, if one does."""

    trigger: str
    trigger_id: str
    revision: int
    what: str
    field: str | None
    expected: Any
    found: Any
    message: str


class VerifiedCheckpointOut(Answer):
    """Checkpoint that was verified against; `pinned` is false if its key was named by nothing but itself."""

    created_at: Time
    triggers: int
    public_key: str
    pinned: bool


class VerificationOut(Answer):
    """Result of a verification; `breaks` holds the first break of each broken trigger."""

    sound: bool
    triggers: int
    revisions: int
    broken: int
    breaks: list[BreakOut]
    guards_missing: list[str]
    checkpoint: VerifiedCheckpointOut | None


class ReplayDifferenceOut(Answer):
    """Difference between a current table and the revisions; without a field it is the row itself."""

    table: str
    name: str
    field: str | None
    expected: Any
    found: Any


class ReplayOut(Answer):
    """Changes that replaying all revisions makes in the current tables, or has made."""

    applied: bool
    triggers: int
    revisions: int
    differences: list[ReplayDifferenceOut]
    breaks: list[BreakOut]


class StatementOut(Answer):
    """Signed part of a checkpoint; the digest is over the heads."""

    format: int
    created_at: Time
    schema_: str = Field(alias="schema")
    triggers: int
    digest: str


class SignatureOut(Answer):
    """Ed25519 signature over the statement's canonical text, in base64."""

    public_key: str
    signature: str


class HeadOut(Answer):
    """Newest revision of a trigger."""

    trigger_id: str
    trigger: str
    revision: int
    hash: str


class CheckpointOut(Answer):
    """The newest revisions of all triggers, signed."""

    checkpoint: StatementOut
    signature: SignatureOut
    heads: list[HeadOut]


class ImportOut(Answer):
    """Result of an import: rows by table, current rows made, and the key that signed the export."""

    counts: dict[str, int]
    triggers: int
    public_key: str | None
    pinned: bool


@router.get("/verify", response_model=VerificationOut, dependencies=[_VIEW])
def verify(services: ServicesDep, trigger: TriggerQuery = None, accept: AcceptHeader = "") -> Response:
    """Walk the hash chains and return the first break of each trigger."""
    key = _key(trigger)
    return answer_long_work(
        accept, lambda progress: _verification(verify_histories(services.database, key, None, progress))
    )


@router.post(
    "/verify",
    response_model=VerificationOut,
    openapi_extra=documented_upload("application/json", "a checkpoint"),
    dependencies=[_VIEW],
)
def verify_against(
    services: ServicesDep,
    file: CheckpointFile,
    trigger: TriggerQuery = None,
    public_key: KeyQuery = None,
    accept: AcceptHeader = "",
) -> Response:
    """Check the signature of a checkpoint, then walk the chains up to its heads."""
    key = _key(trigger)
    against = checkpoints.read(_json(file), expected_key(services.settings, public_key))
    return answer_long_work(
        accept, lambda progress: _verification(verify_histories(services.database, key, against, progress))
    )


@router.get("/checkpoint", response_model=CheckpointOut, dependencies=[_ADMIN])
def checkpoint(services: ServicesDep, unverified: UnverifiedQuery = False, accept: AcceptHeader = "") -> Response:
    """Verify all chains, and return the newest revisions of all triggers signed with the configured key."""
    key = signing_key(services.settings)

    def work(progress: Progress) -> CheckpointOut:
        document = sign_checkpoint(services.database, key, unverified=unverified, progress=progress)
        return CheckpointOut.model_validate(document)

    return answer_long_work(accept, work)


@router.get("/rebuild", response_model=ReplayOut, dependencies=[_VIEW])
def compare(services: ServicesDep, accept: AcceptHeader = "") -> Response:
    """Return the changes that replaying all revisions would make in the current tables."""
    return answer_long_work(
        accept, lambda progress: _replay(compare_tables(services.database, progress), applied=False)
    )


@router.post("/rebuild", response_model=ReplayOut, dependencies=[_ADMIN])
def rebuild(services: ServicesDep, caller: CallerDep, accept: AcceptHeader = "") -> Response:
    """Rebuild the current tables from the revisions, and return what differed."""
    return answer_long_work(
        accept,
        lambda progress: _replay(
            rebuild_tables(services.database, services.observations, caller.actor, progress), applied=True
        ),
    )


@router.get("/export", response_class=Response, responses={200: {"content": {NDJSON: {}}}}, dependencies=[_ADMIN])
def export(services: ServicesDep, unverified: UnverifiedQuery = False) -> StreamingResponse:
    """Verify all chains, and stream everything that is true as lines; the last line says that it is complete."""
    key = signing_key(services.settings) if services.settings.checkpoint_key_file else None
    lines = export_database(services.database, key, unverified=unverified)
    first = next(lines)  # so that a refusal is answered before the status line is sent
    return StreamingResponse(chain([first], lines), media_type=NDJSON)


@router.post(
    "/import",
    response_model=ImportOut,
    openapi_extra=documented_upload(NDJSON, "the answer of `/export`"),
    dependencies=[_ADMIN],
)
def import_export(
    services: ServicesDep,
    caller: CallerDep,
    file: ExportFile,
    public_key: KeyQuery = None,
    accept: AcceptHeader = "",
) -> Response:
    """Import an export into an empty database."""
    expected = expected_key(services.settings, public_key)

    def work(progress: Progress) -> ImportOut:
        must_be_signed = public_key is not None
        result = import_database(
            services.database,
            services.observations,
            file,
            caller.actor,
            expected,
            must_be_signed=must_be_signed,
            progress=progress,
        )
        return _imported(result)

    return answer_long_work(accept, work)


def _key(trigger: str | None) -> TriggerKey | None:
    if trigger is None:
        return None
    key = TriggerKey.parse(trigger)
    refuse(name_faults("", **key._asdict()))
    return key


def _json(file: BinaryIO) -> Any:
    try:
        return json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the checkpoint is not JSON: {error}") from None


def _plain(value: Any) -> Any:
    return utc_text(value) if isinstance(value, datetime) else value


def _break(broken: ChainBreak) -> BreakOut:
    return BreakOut(
        trigger=str(broken.key),
        trigger_id=broken.trigger_id,
        revision=broken.revision,
        what=broken.what.value,
        field=broken.field,
        expected=_plain(broken.expected),
        found=_plain(broken.found),
        message=broken.message,
    )


def _verification(report: Report) -> VerificationOut:
    against = report.checkpoint
    return VerificationOut(
        sound=report.is_sound,
        triggers=report.triggers,
        revisions=report.revisions,
        broken=report.broken,
        breaks=[_break(broken) for broken in report.breaks],
        guards_missing=report.guards_missing,
        checkpoint=VerifiedCheckpointOut(
            created_at=against.created_at,
            triggers=len(against.heads),
            public_key=str(against.public_key),
            pinned=against.is_pinned,
        )
        if against
        else None,
    )


def _replay(replay: Replay, *, applied: bool) -> ReplayOut:
    differences = [
        ReplayDifferenceOut(
            table=difference.table,
            name=difference.name,
            field=difference.field,
            expected=_plain(difference.expected),
            found=_plain(difference.found),
        )
        for difference in replay.differences
    ]
    breaks = [_break(broken) for broken in replay.breaks]
    counts = {"triggers": replay.triggers, "revisions": replay.revisions}
    return ReplayOut(applied=applied, **counts, differences=differences, breaks=breaks)


def _imported(imported: Imported) -> ImportOut:
    return ImportOut(
        counts=dict(imported.counts),
        triggers=imported.triggers,
        public_key=str(imported.signed_by) if imported.signed_by else None,
        pinned=imported.is_pinned,
    )
