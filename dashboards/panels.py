"""Builders for the kinds of panels that the dashboards use. Queries are given as a mapping from legend to PromQL."""

import json
from collections.abc import Mapping
from typing import Any

from grafana_foundation_sdk.builders import common, prometheus, stat, text, timeseries
from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    Panel,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HERE = 'job="$job"'
"""Label matcher that every selector contains: the chosen installation."""
RATE = "$__rate_interval"


def empty(name: str, title: str, about: str) -> grafana.Dashboard:
    """Return a dashboard without panels, with links to the others and variables for data source and installation."""
    others = grafana.DashboardLink("triggerctl").type(DashboardLinkType.DASHBOARDS).tags(["triggerctl"])
    return (
        grafana.Dashboard(f"triggerctl: {title}")
        .uid(f"triggerctl-{name}")
        .description(about)
        .tags(["triggerctl"])
        .timezone("browser")
        .time("now-6h", "now")
        .refresh("30s")
        .readonly()
        .link(others.as_dropdown(True).include_vars(True).keep_time(True))
        .with_variable(grafana.DatasourceVariable("datasource").type("prometheus").label("Prometheus"))
        .with_variable(choice("job", "Installation", "label_values(triggerctl_build_info, job)"))
    )


def choice(name: str, label: str, query: str) -> grafana.QueryVariable:
    """Return a variable whose values come from a Prometheus query."""
    variable = grafana.QueryVariable(name).label(label).query(query).datasource(SOURCE)
    return variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)


def typed(name: str, label: str, value: str) -> grafana.TextBoxVariable:
    """Return a variable that people type in."""
    return grafana.TextBoxVariable(name).label(label).default_value(value)


def link(title: str, url: str) -> grafana.DashboardLink:
    """Return a link to another page; the URL may contain variables of the dashboard."""
    return grafana.DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True)


def graph(
    title: str, unit: str, queries: Mapping[str, str], about: str, *, width: int = 12, most: float | None = None
) -> timeseries.Panel:
    """Return a panel of lines over time; legends may contain labels (`{{cause}}`), `most` fixes the axis."""
    legend = common.VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM)
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .span(width)
        .height(8)
        .fill_opacity(8)
        .legend(legend.display_mode(LegendDisplayMode.LIST))
    )
    if most is not None:
        panel = panel.max(most)
    for ref, (name, query) in zip("ABCDEF", queries.items(), strict=False):
        panel = panel.with_target(prometheus.Dataquery().expr(query).legend_format(name).range().ref_id(ref))
    return panel


def number(title: str, query: str, about: str, *, unit: str = "short", bad_from: float | None = None) -> stat.Panel:
    """Return a panel with the current value as a number, red from `bad_from` on."""
    steps = [Threshold(color="green")]
    if bad_from is not None:
        steps.append(Threshold(value=bad_from, color="red"))
    return (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .span(4)
        .height(4)
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE)
        .thresholds(grafana.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .with_target(prometheus.Dataquery().expr(query).instant().ref_id("A"))
    )


def note(title: str, markdown: str, *, height: int) -> text.Panel:
    """Return a panel of text over the whole width."""
    return text.Panel().title(title).content(markdown).span(24).height(height)


def row(dashboard: grafana.Dashboard, title: str, *panels: Builder[Panel]) -> grafana.Dashboard:
    """Add a row of panels under a title, and return the dashboard."""
    dashboard = dashboard.with_row(grafana.Row(title))
    for panel in panels:
        dashboard = dashboard.with_panel(panel)
    return dashboard


def quantiles(metric: str, by: str = "", also: str = "") -> dict[str, str]:
    """Return queries for median and 95th percentile of a histogram, separately for each value of the label `by`."""
    prefix = f"{{{{{by}}}}} " if by else ""
    labels = f"le, {by}" if by else "le"
    inner = f"sum by ({labels}) (rate({metric}_bucket{{{HERE}{also}}}[{RATE}]))"
    return {
        f"{prefix}median": f"histogram_quantile(0.5, {inner})",
        f"{prefix}95 %": f"histogram_quantile(0.95, {inner})",
    }


def as_json(dashboard: grafana.Dashboard) -> str:
    """Return the dashboard as JSON with sorted keys; panels get their position as id."""
    built: dict[str, Any] = json.loads(json.dumps(dashboard.build(), cls=JSONEncoder))
    for place, panel in enumerate(built["panels"], 1):
        panel["id"] = place
    return json.dumps(built, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
