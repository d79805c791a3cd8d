"""How the installation is; asked of a database of any schema, and of one that is gone."""

from fastapi import APIRouter

from controller.api.context import Here
from controller.shapes.doctor import DoctorShape, doctor_shape
from reconcile.queries.doctor import examine
from revisions.clock import HostClock

router = APIRouter(tags=["doctor"])


@router.get("/doctor")
def doctor(here: Here) -> DoctorShape:
    """Looks at everything that is known to go wrong, and says what to do where it is not well."""
    return doctor_shape(examine(here.database, here.settings.pace, HostClock(), here.settings.listen_url))
