"""The answers of a Redfish service that are not resources (DSP0266 8.6, Base message registry)."""

from __future__ import annotations

from collections.abc import Mapping

Body = dict[str, object]

TEXTS: Mapping[str, str] = {
    "NoValidSession": "There is no valid session established with the implementation.",
    "ResourceAtUriUnauthorized": "Authentication failed.",
    "InsufficientPrivilege": "There are insufficient privileges for the account or credentials associated with the current session.",
    "PasswordChangeRequired": "The password provided for this account must be changed before access is granted.",
    "ResourceMissingAtURI": "The resource at the URI was not found.",
    "OperationNotAllowed": "The HTTP method is not allowed on this resource.",
    "QueryParameterUnsupported": "A query parameter of the request is not supported.",
    "HeaderInvalid": "A header of the request has a value that is not supported.",
    "PreconditionFailed": "The ETag supplied did not match the ETag required to change this resource.",
    "MalformedJSON": "The request body submitted was malformed JSON and could not be parsed by the receiving service.",
    "NoOperation": "The request body submitted contain no data to act upon and no changes to the resource took place.",
    "PropertyUnknown": "A property is not in the list of valid properties for the resource.",
    "PropertyMissing": "A property that is required is missing from the request.",
    "PropertyValueNotInList": "The value of a property is not in the list of acceptable values.",
    "EventSubscriptionLimitExceeded": "The event subscription failed due to the number of simultaneous subscriptions exceeding the limit.",
    "SessionLimitExceeded": "The session establishment failed due to the number of simultaneous sessions exceeding the limit.",
    "ServiceTemporarilyUnavailable": "The service is temporarily unavailable.",
    "GeneralError": "A general error has occurred.",
}


def error(name: str, *, severity: str = "Critical") -> Body:
    """Build the body of an error."""
    return {"error": {"code": f"Base.1.19.{name}", "message": TEXTS[name], "@Message.ExtendedInfo": [message(name, severity=severity)]}}


def message(name: str, *, severity: str = "Critical") -> Body:
    """Build one message of the Base registry."""
    return {
        "@odata.type": "#Message.v1_2_1.Message",
        "MessageId": f"Base.1.19.{name}",
        "Message": TEXTS[name],
        "MessageArgs": [],
        "MessageSeverity": severity,
        "Resolution": "None.",
    }
