"""OpenAPI document, and the probes of liveness and readiness."""

from tests.controller.asking import Api


def test_the_openapi_document_covers_every_route(api: Api) -> None:
    """U-05: routes with their answers and problems."""
    document = api.client.get("/openapi.json").json()
    assert {
        "/api/v1/triggers/{project}/{domain}/{task}/{name}",
        "/api/v1/triggers/{project}/{domain}/{task}/{name}/revisions/{number}",
        "/api/v1/next",
        "/api/v1/runs/{id}/logs",
        "/healthz",
        "/readyz",
    } <= set(document["paths"])
    deploy = document["paths"]["/api/v1/triggers/{project}/{domain}/{task}/{name}"]["put"]
    assert "application/yaml" in deploy["requestBody"]["content"]
    assert "application/problem+json" in deploy["responses"]["4XX"]["content"]
    assert {"If-Match", "If-None-Match", "Idempotency-Key"} <= {
        parameter["name"].title() for parameter in deploy["parameters"]
    }
    assert "paused_until" in document["components"]["schemas"]["StatusOut"]["properties"]


def test_liveness_and_readiness(api: Api) -> None:
    """O-05: both are ok over a database with the current schema."""
    for path in ("/healthz", "/readyz"):
        answer = api.client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
