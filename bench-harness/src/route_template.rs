//! Which of a service's routes a scenario's request belongs to. The service speaks of route
//! templates (`GET /items/{id}`), the scenario of paths with variables (`/items/${id}`).

/// The route with most literal segments among those that match; of two that differ only in the
/// slash at their end, the one that ends as the path does.
pub fn best_route<'r>(
    method: &str,
    path: &str,
    routes: impl IntoIterator<Item = &'r str>,
) -> Option<&'r str> {
    let ends_alike = |route: &str| ends_with_slash(route) == ends_with_slash(path);
    routes
        .into_iter()
        .filter_map(|route| Some((literal_matches(method, path, route)?, route)))
        .max_by_key(|&(likeness, route)| (likeness, ends_alike(route)))
        .map(|(_, route)| route)
}

/// Whether it matches segment by segment, and how many are equal; if it matches at all.
fn literal_matches(method: &str, path: &str, route: &str) -> Option<(bool, usize)> {
    let (route_method, template) = route.split_once(' ')?;
    if !route_method.eq_ignore_ascii_case(method) {
        return None;
    }
    let (mine, theirs) = (segments(path), segments(template));
    let is_whole = mine.len() == theirs.len();
    let takes_rest = theirs.last().is_some_and(|last| is_rest(last)) && mine.len() > theirs.len();
    if !is_whole && !takes_rest {
        return None;
    }
    let mut literals = 0;
    for (mine, theirs) in mine.iter().zip(&theirs) {
        if mine == theirs {
            literals += 1;
        } else if !is_open(theirs) && !mine.contains("${") {
            return None;
        }
    }
    Some((is_whole, literals))
}

/// It stands for the rest of a path: axum's `{*rest}`, Starlette's `{rest:path}`, and what the Python
/// middleware writes for that and for a mount.
fn is_rest(segment: &str) -> bool {
    let is_starlette = segment.starts_with('{') && segment.ends_with(":path}");
    segment.starts_with("{*") || is_starlette || segment == "{path}"
}

/// Without query and without a slash at the end.
fn segments(path: &str) -> Vec<&str> {
    without_query(path).trim_matches('/').split('/').collect()
}

fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

fn ends_with_slash(path: &str) -> bool {
    without_query(path).ends_with('/')
}

/// `{name}` or `:name`, as routers write it.
fn is_open(segment: &str) -> bool {
    (segment.starts_with('{') && segment.ends_with('}')) || segment.starts_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_match_segment_by_segment() {
        let route = "GET /api/v1/tunnel/workspace/{workspace_id}";
        let matches = |path| literal_matches("get", path, route);
        assert_eq!(matches("/api/v1/tunnel/workspace/${id}"), Some((true, 4)));
        assert_eq!(matches("/api/v1/tunnel/workspace/a1/?x=1"), Some((true, 4)));
        assert_eq!(matches("/api/v1/tunnel/workspace/a1/socket-status"), None);
        assert_eq!(matches("/api/v2/tunnel/workspace/a1"), None);
        assert_eq!(
            literal_matches("POST", "/api/v1/tunnel/workspace/x", route),
            None
        );
    }

    #[test]
    fn a_route_may_take_the_rest_of_a_path() {
        let routes = ["GET /f/{*rest}", "GET /f/{a}/{b}"];
        assert_eq!(best_route("GET", "/f/a/b", routes), Some(routes[1]));
        assert_eq!(best_route("GET", "/f/a/b/c", routes), Some(routes[0]));
        for rest in ["GET /f/{path}", "GET /f/{name:path}"] {
            assert_eq!(best_route("GET", "/f/a/b", [rest]), Some(rest));
        }
        assert_eq!(best_route("GET", "/f/a/b", ["GET /f/{id}"]), None);
    }

    #[test]
    fn the_more_literal_route_wins() {
        let routes = ["GET /a/{x}", "GET /a/b", "GET /{y}/b"];
        assert_eq!(best_route("GET", "/a/b", routes), Some("GET /a/b"));
        assert_eq!(best_route("GET", "/a/c", routes), Some("GET /a/{x}"));
        assert_eq!(best_route("GET", "/c/d", routes), None);
    }

    #[test]
    fn of_two_routes_the_slash_at_the_end_decides() {
        let routes = ["POST /signup", "POST /signup/"];
        assert_eq!(best_route("POST", "/signup", routes), Some(routes[0]));
        assert_eq!(best_route("POST", "/signup?x=/", routes), Some(routes[0]));
        assert_eq!(best_route("POST", "/signup/", routes), Some(routes[1]));
        assert_eq!(
            best_route("POST", "/signup/", routes[..1].iter().copied()),
            Some(routes[0])
        );
    }
}
