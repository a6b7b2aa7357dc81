"""The route template of a request, from what Starlette and FastAPI leave in its scope.

A template, `/users/{id}`, and never a path: one endpoint per id would help nobody. Neither
framework is imported; what other frameworks serve counts as unmatched.
"""

from typing import Any

from unstall.asgi import Scope


def route_template(scope: Scope, *, ended: bool) -> str | None:
    """Give the template, or `None` while none is known.

    Before the request has `ended`, a mounted application may still find a more exact one.
    """
    litestar = scope.get("path_template")
    if isinstance(litestar, str) and "route_handler" in scope:
        return litestar or "/"
    route = scope.get("route")
    if getattr(route, "endpoint", None) is None:
        # At most a mount: what is mounted has no routes, or hasn't looked for one yet.
        route = _unnamed_route(scope) if ended else None
    prefix = _mount_template(scope, route)
    if route is None:
        return prefix + "/{path}" if ended and prefix else None
    template = _path_of(_with_prefixes(scope, route))
    return None if template is None else (prefix + template or "/")


def _path_of(route: Any) -> str | None:
    for name in ("path_format", "path"):
        template = getattr(route, name, None)
        if isinstance(template, str):
            return template
    return None


def _with_prefixes(scope: Scope, route: Any) -> Any:
    """Give the route as it was included.

    Newer FastAPI keeps one route for all inclusions of its router, and the prefixes beside it.
    """
    context = _inclusion(scope)
    return context if getattr(context, "original_route", None) is route else route


def _inclusion(scope: Scope) -> Any:
    fastapi = scope.get("fastapi")
    return fastapi.get("effective_route_context") if isinstance(fastapi, dict) else None


def _unnamed_route(scope: Scope) -> Any:
    """Find a route that FastAPI serves without naming it, as it does with Starlette's own."""
    endpoint = scope.get("endpoint")
    if endpoint is None:
        return None
    included = getattr(_inclusion(scope), "starlette_route", None)
    routes = getattr(scope.get("router"), "routes", ())
    same = (route for route in (included, *routes) if getattr(route, "endpoint", None) == endpoint)
    return next(same, None)


def _mount_template(scope: Scope, route: Any) -> str:
    """Give the template of the mounts that the request went through.

    A mount leaves its concrete path in `root_path` and the values of its parameters among
    `path_params`: each value is given its name back.
    """
    outside = scope.get("app_root_path")  # set by the first mount
    if not isinstance(outside, str):
        return ""
    prefix: str = scope["root_path"][len(outside) :]
    own = getattr(route, "param_convertors", ())
    for name, value in (scope.get("path_params") or {}).items():
        start = f"{prefix}/".find(f"/{value}/")
        if start >= 0 and name not in own:
            prefix = f"{prefix[: start + 1]}{{{name}}}{prefix[start + 1 + len(str(value)) :]}"
    return prefix
