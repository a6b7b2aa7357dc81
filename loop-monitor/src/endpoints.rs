//! Finds the counters of an endpoint or of a task's name, and keeps their number bounded.
//!
//! A request looks its counters up once; its polls then write them without coming back here.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use http::Method;

use crate::cells::{EndpointCells, Subject};

/// Key under which requests that no route matched are counted.
pub const UNMATCHED_ENDPOINT: &str = "* (unmatched)";
/// Key under which requests are counted once there are as many endpoints as allowed.
pub const OTHER_ENDPOINT: &str = "* (other)";
/// Name under which tasks and pool jobs are counted once there are as many names as allowed.
pub const OTHER_NAME: &str = "(other)";

/// Stands for the method where a service doesn't speak HTTP.
pub(crate) const CALL: &str = "CALL";
/// Stands for the method of a task.
const TASK: &str = "TASK";
/// A route or name longer than this is no template; it is counted with the others.
pub(crate) const NAME_BYTES_MAX: usize = 512;
/// More would cost memory, and later threads count all the same, only slower.
const SHARDS_MAX: usize = 16;

/// Every endpoint and kind of task seen; of each, at most as many as allowed.
#[derive(Debug)]
pub(crate) struct EndpointRegistry {
    /// Of endpoints, and of tasks' names.
    names_max: usize,
    /// Threads that have counters of their own.
    own_shards: usize,
    table: RwLock<Table>,
    unmatched: Arc<EndpointCells>,
    other: Arc<EndpointCells>,
    other_tasks: Arc<EndpointCells>,
}

/// The counters of each route, or name.
type Routes = HashMap<Box<str>, Arc<EndpointCells>>;

#[derive(Debug, Default)]
struct Table {
    /// Of the few methods, in the order in which they were met: that takes less time to search
    /// than to hash a method's name.
    by_method: Vec<(&'static str, Routes)>,
    by_id: Vec<Arc<EndpointCells>>,
    /// Beside the buckets that exist from the start.
    routes: usize,
    /// The same for tasks.
    tasks: usize,
}

impl EndpointRegistry {
    pub(crate) fn new(names_max: usize) -> Self {
        let own_shards = std::thread::available_parallelism()
            // Unknown: one is right, only slower.
            .map_or(1, usize::from)
            // Workers, and who waits in `block_on`.
            .saturating_add(1)
            .min(SHARDS_MAX);
        let bucket = |id, subject, method, route| {
            Arc::new(EndpointCells::new(id, subject, method, route, own_shards))
        };
        let unmatched = bucket(0, Subject::Requests, "*", "(unmatched)");
        let other = bucket(1, Subject::Requests, "*", OTHER_NAME);
        let other_tasks = bucket(2, Subject::Tasks, TASK, OTHER_NAME);
        let by_id = [&unmatched, &other, &other_tasks].map(Arc::clone).into();
        Self {
            names_max,
            own_shards,
            table: RwLock::new(Table {
                by_id,
                ..Table::default()
            }),
            unmatched,
            other,
            other_tasks,
        }
    }

    /// The counters of a route; `None` means that no route matched.
    pub(crate) fn resolve(&self, method: &Method, route: Option<&str>) -> Arc<EndpointCells> {
        match route {
            Some(route) => self.find_or_admit(Subject::Requests, method_name(method), route),
            None => Arc::clone(&self.unmatched),
        }
    }

    /// The counters of a call to a service that doesn't speak HTTP.
    pub(crate) fn resolve_call(&self, name: &str) -> Arc<EndpointCells> {
        self.find_or_admit(Subject::Requests, CALL, name)
    }

    /// The counters of the tasks of one name.
    pub(crate) fn resolve_task(&self, name: &str) -> Arc<EndpointCells> {
        self.find_or_admit(Subject::Tasks, TASK, name)
    }

    fn find_or_admit(
        &self,
        subject: Subject,
        method: &'static str,
        route: &str,
    ) -> Arc<EndpointCells> {
        let other = match subject {
            Subject::Requests => &self.other,
            Subject::Tasks => &self.other_tasks,
        };
        if route.len() > NAME_BYTES_MAX {
            return Arc::clone(other);
        }
        {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(cells) = table.find(method, route) {
                return Arc::clone(cells);
            }
            if table.count(subject) >= self.names_max {
                return Arc::clone(other);
            }
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been here between the two locks.
        if let Some(cells) = table.find(method, route) {
            return Arc::clone(cells);
        }
        if table.count(subject) >= self.names_max {
            return Arc::clone(other);
        }
        table.admit(subject, method, route, self.own_shards)
    }

    pub(crate) fn by_id(&self, id: usize) -> Option<Arc<EndpointCells>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_id.get(id).map(Arc::clone)
    }

    /// Every endpoint and kind of task that has been asked for.
    pub(crate) fn all(&self) -> Vec<Arc<EndpointCells>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_id.clone()
    }
}

impl Table {
    fn find(&self, method: &'static str, route: &str) -> Option<&Arc<EndpointCells>> {
        let mut methods = self.by_method.iter();
        let (_, routes) = methods.find(|(name, _)| *name == method)?;
        routes.get(route)
    }

    fn routes_of(&mut self, method: &'static str) -> &mut Routes {
        let known = self.by_method.iter().position(|(name, _)| *name == method);
        let place = known.unwrap_or_else(|| {
            self.by_method.push((method, Routes::new()));
            self.by_method.len() - 1
        });
        &mut self.by_method[place].1
    }

    fn count(&self, subject: Subject) -> usize {
        match subject {
            Subject::Requests => self.routes,
            Subject::Tasks => self.tasks,
        }
    }

    fn admit(
        &mut self,
        subject: Subject,
        method: &'static str,
        route: &str,
        own_shards: usize,
    ) -> Arc<EndpointCells> {
        let id = self.by_id.len();
        let cells = Arc::new(EndpointCells::new(id, subject, method, route, own_shards));
        self.by_id.push(Arc::clone(&cells));
        self.routes_of(method)
            .insert(route.into(), Arc::clone(&cells));
        match subject {
            Subject::Requests => self.routes += 1,
            Subject::Tasks => self.tasks += 1,
        }
        cells
    }
}

/// Methods are the client's choice and may be any token: the unusual ones share a name.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::PATCH => "PATCH",
        Method::TRACE => "TRACE",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_beyond_the_cap_share_a_bucket_and_known_ones_stay() {
        let registry = EndpointRegistry::new(2);
        let first = registry.resolve(&Method::GET, Some("/a"));
        registry.resolve_call("b");
        let beyond = registry.resolve(&Method::GET, Some("/c"));
        assert_eq!(beyond.key(), OTHER_ENDPOINT);
        assert_eq!(registry.resolve_call("c").key(), OTHER_ENDPOINT);
        let again = registry.resolve(&Method::GET, Some("/a"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(registry.all().len(), 2 + 3);
    }

    #[test]
    fn tasks_have_a_cap_of_their_own() {
        let registry = EndpointRegistry::new(2);
        for name in ["a", "b", "c", "d"] {
            registry.resolve_task(name);
        }
        registry.resolve(&Method::GET, Some("/a"));
        let keys: Vec<String> = registry.all().iter().map(|cells| cells.key()).collect();
        assert_eq!(keys[2..], ["TASK (other)", "TASK a", "TASK b", "GET /a"]);
        assert_eq!(registry.resolve_task("c").key(), "TASK (other)");
    }

    #[test]
    fn strange_methods_and_endless_routes_make_no_endpoints() {
        let registry = EndpointRegistry::new(100);
        for name in ["BREW", "brew", "GET2", TASK, CALL] {
            let method = Method::from_bytes(name.as_bytes()).expect("a token");
            let cells = registry.resolve(&method, Some("/pot"));
            assert_eq!(cells.key(), "OTHER /pot");
        }
        let endless = "/x".repeat(NAME_BYTES_MAX);
        let cells = registry.resolve(&Method::GET, Some(&endless));
        assert_eq!(cells.key(), OTHER_ENDPOINT);
        let unmatched = registry.resolve(&Method::GET, None);
        assert_eq!(unmatched.key(), UNMATCHED_ENDPOINT);
    }
}
