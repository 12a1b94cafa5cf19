"""The answers of a Redfish service that are not resources (DSP0266 8.6, Base message registry)."""

from __future__ import annotations

from collections.abc import Mapping

Body = dict[str, object]

TEXTS: Mapping[str, str] = {
    "NoValidSession": "There is no valid session established with the implementation.",
    "ResourceAtUriUnauthorized": "While accessing the resource at '%1', the service received an authorization error '%2'.",
    "InsufficientPrivilege": "There are insufficient privileges for the account or credentials associated with the current session.",
    "PasswordChangeRequired": "The password provided for this account must be changed before access is granted at '%1'.",
    "ResourceMissingAtURI": "The resource at the URI '%1' was not found.",
    "OperationNotAllowed": "The HTTP method is not allowed on this resource.",
    "QueryParameterUnsupported": "Query parameter '%1' is not supported.",
    "HeaderInvalid": "Header '%1' is invalid.",
    "PreconditionFailed": "The ETag supplied did not match the ETag required to change this resource.",
    "MalformedJSON": "The request body submitted was malformed JSON and could not be parsed by the receiving service.",
    "NoOperation": "The request body submitted contain no data to act upon and no changes to the resource took place.",
    "PropertyUnknown": "The property %1 is not in the list of valid properties for the resource.",
    "PropertyMissing": "The property %1 is a required property and must be included in the request.",
    "PropertyValueNotInList": "The value '%1' for the property %2 is not in the list of acceptable values.",
    "EventSubscriptionLimitExceeded": "The event subscription failed due to the number of simultaneous subscriptions exceeding the limit.",
    "SessionLimitExceeded": "The session establishment failed due to the number of simultaneous sessions exceeding the limit.",
    "ServiceTemporarilyUnavailable": "The service is temporarily unavailable.  Retry in %1 seconds.",
    "GeneralError": "A general error has occurred.",
}


def error(name: str, *args: str) -> Body:
    """Build the body of an error with one message."""
    return error_of(message(name, *args))


def error_of(first: Body) -> Body:
    """Build the body of an error from its message."""
    return {"error": {"code": first["MessageId"], "message": first["Message"], "@Message.ExtendedInfo": [first]}}


def message(name: str, *args: str, severity: str = "Critical") -> Body:
    """Build one message of the Base registry."""
    text = TEXTS[name]
    for number, arg in enumerate(args, 1):
        text = text.replace(f"%{number}", arg)
    return {
        "@odata.type": "#Message.v1_2_1.Message",
        "MessageId": f"Base.1.19.{name}",
        "Message": text,
        "MessageArgs": list(args),
        "MessageSeverity": severity,
        "Resolution": "None.",
    }


def vendor_error(message_id: str, text: str) -> Body:
    """Build an error with a message of a vendor's registry."""
    return error_of({"@odata.type": "#Message.v1_2_1.Message", "MessageId": message_id, "Message": text, "MessageSeverity": "Critical"})
