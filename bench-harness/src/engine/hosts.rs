//! The services that a scenario's requests go to: the target first, then those of `[hosts]`. Load
//! goes to these and nowhere else.

use std::sync::Arc;

use unstall_scenarios::plan::Plan;
use url::Url;

use super::target::{Target, TargetError};

/// Where a plan's requests may go.
#[derive(Debug)]
pub(super) struct Hosts {
    services: Vec<Service>,
}

/// One service.
#[derive(Debug)]
pub(super) struct Service {
    /// In the scenario's `[hosts]`; the target has none.
    name: Option<String>,
    pub(super) target: Arc<Target>,
    /// What requests call it, and where it is, which differs by `--server-name`.
    origins: [Url; 2],
}

/// Why a service of a scenario's `[hosts]` can't be used.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Its URL is none that load can go to.
    #[error("[hosts] {name}: {source}; mend the scenario, or the variables in it")]
    Host {
        /// Its name.
        name: String,
        /// What is wrong.
        source: TargetError,
    },
    /// Redirects and cookies go by URLs, and this one has none.
    #[error("{target} has no URL that redirects and cookies could go by ({source})")]
    NoUrl {
        /// The service.
        target: String,
        /// What is wrong with it.
        source: url::ParseError,
    },
}

/// The services of a plan, as it speaks to them: the target, which has no name, and those of its
/// `[hosts]`, which are reached as the target is, but for `--server-name`.
///
/// # Errors
/// A URL in `[hosts]` is none, or can't be reached in this way.
pub fn services(plan: &Plan, target: &Target) -> Result<Vec<(Option<String>, Target)>, HostError> {
    let http = plan.client.http;
    let access = target.access().of_other_hosts();
    let mut services = vec![(None, target.clone().speaking(http))];
    for (name, url) in &plan.hosts {
        let host = Target::reached_by(url, &access).map_err(|source| HostError::Host {
            name: name.clone(),
            source,
        })?;
        services.push((Some(name.clone()), host.speaking(http)));
    }
    Ok(services)
}

impl Hosts {
    /// The services of a plan.
    ///
    /// # Errors
    /// One that load can't go to.
    pub(super) fn of(plan: &Plan, target: &Target) -> Result<Self, HostError> {
        let services = services(plan, target)?.into_iter();
        let services = services.map(|(name, target)| {
            let no_url = |source| HostError::NoUrl {
                target: target.to_string(),
                source,
            };
            let named = format!("{}://{}/", target.scheme(), target.host_header());
            let named = Url::parse(&named).map_err(no_url)?;
            let placed = match target.socket() {
                Some(_) => named.clone(),
                None => Url::parse(&target.url("")).map_err(no_url)?,
            };
            Ok(Service {
                name,
                target: Arc::new(target),
                origins: [named, placed],
            })
        });
        let services = services.collect::<Result<_, _>>()?;
        Ok(Self { services })
    }

    /// The service alone, for what has no plan.
    pub(super) fn target(&self) -> &Arc<Target> {
        &self.services[0].target
    }

    /// All of them; the target is the first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.services.iter()
    }

    /// The one at an index.
    pub(super) fn at(&self, index: usize) -> &Service {
        &self.services[index]
    }

    /// The index of the one that a request names; scenarios are checked to name only these.
    pub(super) fn index_of(&self, name: Option<&str>) -> usize {
        let mut services = self.services.iter();
        let index = services.position(|service| service.name.as_deref() == name);
        index.expect("a plan's requests name only its own hosts")
    }

    /// The one that a URL is of, `here` before others.
    pub(super) fn serving(&self, url: &Url, here: usize) -> Option<usize> {
        let is_served = |service: &Service| {
            let mut origins = service.origins.iter();
            origins.any(|origin| origin.origin() == url.origin())
        };
        if is_served(&self.services[here]) {
            return Some(here);
        }
        self.services.iter().position(is_served)
    }
}

impl Service {
    /// The full URL of a path with its query, as the service's other answers may name it.
    ///
    /// # Errors
    /// It isn't a path of a URL.
    pub(super) fn url(&self, path_and_query: &str) -> Result<Url, url::ParseError> {
        let [named, _] = &self.origins;
        // Joined as text: `//a` would be read as a host.
        Url::parse(&format!(
            "{}{path_and_query}",
            &named[..url::Position::BeforePath]
        ))
    }
}
