"""OpenAPI document and probes."""

from tests.controller.asking import Api


def test_the_description_covers_every_route(api: Api) -> None:
    """U-05: /openapi.json describes the routes with their answers and problems."""
    described = api.client.get("/openapi.json").json()
    assert {
        "/api/v1/triggers/{project}/{domain}/{task}/{name}",
        "/api/v1/triggers/{project}/{domain}/{task}/{name}/revisions/{number}",
        "/api/v1/next",
        "/api/v1/runs/{id}/logs",
        "/healthz",
        "/readyz",
    } <= set(described["paths"])
    deploy = described["paths"]["/api/v1/triggers/{project}/{domain}/{task}/{name}"]["put"]
    assert "application/yaml" in deploy["requestBody"]["content"]
    assert "application/problem+json" in deploy["responses"]["4XX"]["content"]
    assert {"If-Match", "If-None-Match", "Idempotency-Key"} <= {
        parameter["name"].title() for parameter in deploy["parameters"]
    }
    assert "paused_until" in described["components"]["schemas"]["StatusOut"]["properties"]


def test_alive_and_ready(api: Api) -> None:
    """O-05: both answer ok over a database of this schema."""
    for path in ("/healthz", "/readyz"):
        answer = api.client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
