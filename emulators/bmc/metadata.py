"""The two OData documents of a Redfish service (DSP0266 8.4)."""

from __future__ import annotations

from emulators.bmc.messages import Body
from emulators.bmc.resource import ROOT, VERSIONS


def service_document() -> Body:
    """List the top-level resources."""
    names = ("Systems", "Chassis", "Managers", "AccountService", "SessionService", "EventService", "TelemetryService")
    services = [{"name": name, "kind": "Singleton", "url": f"{ROOT}/{name}"} for name in names]
    return {"@odata.context": f"{ROOT}/$metadata", "value": [{"name": "Service", "kind": "Singleton", "url": f"{ROOT}/"}, *services]}


def metadata() -> str:
    """Refer to the schema of every resource in use."""
    references = "".join(
        f'<edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/{kind}_v1.xml">'
        f'<edmx:Include Namespace="{kind}"/><edmx:Include Namespace="{kind}.{version}"/></edmx:Reference>'
        for kind, version in sorted(VERSIONS.items())
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">'
        f"{references}"
        '<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">'
        f'<EntityContainer Name="Service" Extends="ServiceRoot.{VERSIONS["ServiceRoot"]}.ServiceContainer"/>'
        "</Schema></edmx:DataServices></edmx:Edmx>"
    )
