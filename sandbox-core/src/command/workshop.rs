//! What a command works with: the service on the store, locks, git and runtimes that it was told of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::eviction::Limits;
use unstall_sandbox_core::domain::{BackendKind, UrlScheme, UrlSchemes, WorkerId, WorkspaceId};
use unstall_sandbox_core::git::{GitTimes, LocalGit};
use unstall_sandbox_core::locks::{LeaseTimes, LocalLocks, RedisLocks};
use unstall_sandbox_core::ports::locks::LockManager;
use unstall_sandbox_core::ports::runtimes::RuntimeProvider;
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::runtime::{Bubblewrap, BubblewrapSettings, SupervisorProgram};
use unstall_sandbox_core::service::{Adapters, Faults, Reserve, SandboxService, Settings};
use unstall_sandbox_core::stores::{PostgresStore, SqliteStore};
use uuid::Uuid;

use super::arguments::Place;
use super::environment;
use super::failure::Failure;
use super::ground::Ground;
use super::idle_runtimes::IdleRuntimes;
use super::root_lock::RootLock;

/// Tests name a fault point here, at which the process ends.
const FAULT: &str = "UNSTALL_SANDBOX_FAULT";
const KIND: &str = "bubblewrap";

/// What a command needs of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It only looks at records and trees.
    Looking,
    /// It changes them, so that what an earlier process left is mended first.
    Changing,
    /// It runs commands, too.
    Running,
}

/// The service, opened.
pub(super) struct Workshop {
    pub(crate) service: Arc<SandboxService>,
    pub(crate) root: PathBuf,
    /// `SQLite` or `PostgreSQL`.
    pub(crate) store_kind: &'static str,
}

impl Workshop {
    /// Opens all that a command needs.
    pub(super) async fn open(place: &Place, need: Need, ground: &Ground) -> Result<Self, Failure> {
        Self::open_with(place, need, Limits::default(), ground).await
    }

    /// The same, with other times after which things go.
    pub(super) async fn open_with(
        place: &Place,
        need: Need,
        limits: Limits,
        ground: &Ground,
    ) -> Result<Self, Failure> {
        let pool = ground.pool().clone();
        let servers = servers_of(place)?;
        let schemes = schemes_of(place)?;
        let git = LocalGit::open(root_of(place)?, GitTimes::default(), pool.clone()).await?;
        let root = git.root().to_owned();
        let is_alone = servers.is_none();
        let lock = match need {
            Need::Changing | Need::Running if is_alone => Some(RootLock::wait(&root, &pool).await?),
            _ => None,
        };
        // A store on a full disk can't even be opened. The space is kept back again below.
        let reserve = Reserve::below(&root, pool.clone());
        reserve.give_up_if_full().await?;
        let (store, locks, store_kind): (Arc<dyn SandboxStore>, Arc<dyn LockManager>, _) =
            match servers {
                Some((database_url, redis_url)) => {
                    let store = PostgresStore::connect(database_url).await?;
                    store.migrate().await?;
                    let locks = RedisLocks::connect(redis_url, LeaseTimes::default()).await?;
                    (Arc::new(store), Arc::new(locks), "PostgreSQL")
                }
                None => {
                    let file = place.metadata.clone();
                    let file = file.unwrap_or_else(|| root.join("sandbox.sqlite"));
                    let store = SqliteStore::open(&file).await?;
                    store.migrate().await?;
                    (Arc::new(store), Arc::new(LocalLocks::new()), "SQLite")
                }
            };
        let runtimes = runtimes(need, &pool).await?;
        let git = Arc::new(git);
        let adapters = Adapters {
            store,
            locks,
            caches: git.clone(),
            trees: git,
            runtimes,
            platform: None,
            pool,
        };
        let mut settings = settings(&root, is_alone, limits)?;
        settings.schemes = schemes;
        let service = SandboxService::new(adapters, settings, faults()?);
        let service = Arc::new(service);
        ground.keep(Arc::clone(&service), need, lock);
        match need {
            Need::Looking => service.renew_reserve().await,
            Need::Changing | Need::Running => drop(service.reconcile().await?),
        }
        Ok(Self {
            service,
            root,
            store_kind,
        })
    }
}

/// A workspace's id, as it was given.
pub(crate) fn workspace_id(text: &str) -> Result<WorkspaceId, Failure> {
    match Uuid::parse_str(text) {
        Ok(id) => Ok(WorkspaceId::from_uuid(id)),
        Err(_) => Err(Failure::Usage(format!(
            "{text:?} is no workspace's id; `unstall-sandbox ls` lists them"
        ))),
    }
}

/// Both servers or none: a store for many without their locks would be one for nobody.
fn servers_of(place: &Place) -> Result<Option<(&str, &str)>, Failure> {
    let filled = |url: &'_ Option<String>| url.as_deref().is_some_and(|url| !url.is_empty());
    match (&place.database_url, &place.redis_url) {
        (Some(database_url), Some(redis_url))
            if filled(&place.database_url) && filled(&place.redis_url) =>
        {
            Ok(Some((database_url, redis_url)))
        }
        _ if !filled(&place.database_url) && !filled(&place.redis_url) => Ok(None),
        _ => Err(Failure::Usage(
            "PostgreSQL and Redis go together: set both DATABASE_URL and REDIS_URL, or neither"
                .to_owned(),
        )),
    }
}

/// `https`, and what else was allowed.
fn schemes_of(place: &Place) -> Result<UrlSchemes, Failure> {
    let words = place.allow_scheme.iter().map(|word| word.trim());
    let mut schemes = UrlSchemes::default();
    for word in words.filter(|word| !word.is_empty()) {
        schemes = schemes.and(UrlScheme::parse(word)?);
    }
    Ok(schemes)
}

fn root_of(place: &Place) -> Result<PathBuf, Failure> {
    if let Some(root) = &place.root {
        return Ok(root.clone());
    }
    let filled = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let data = filled("XDG_DATA_HOME").map(PathBuf::from);
    let home = || filled("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let folder = data.or_else(home).ok_or_else(|| {
        Failure::Usage("there is no home folder to keep trees in; give --root".to_owned())
    })?;
    Ok(folder.join("unstall/sandbox"))
}

async fn runtimes(need: Need, pool: &BlockingPool) -> Result<Arc<dyn RuntimeProvider>, Failure> {
    let asked = environment::text("SANDBOX_RUNTIME_PROVIDER")?;
    if let Some(other) = asked.filter(|it| it != KIND) {
        return Err(Failure::Usage(format!(
            "there is no runtime provider {other:?}; {KIND} is the only one: unset SANDBOX_RUNTIME_PROVIDER"
        )));
    }
    if need != Need::Running {
        return Ok(Arc::new(IdleRuntimes::of(BackendKind::parse(KIND)?)));
    }
    let program = std::env::current_exe().map_err(Failure::Runtime)?;
    let settings = BubblewrapSettings::new(SupervisorProgram::at(program));
    Ok(Arc::new(Bubblewrap::probe(settings, pool.clone()).await?))
}

fn settings(root: &Path, is_alone: bool, limits: Limits) -> Result<Settings, Failure> {
    let worker = format!("unstall-sandbox-{}", Uuid::now_v7());
    let mut settings = Settings::below(root.to_owned(), WorkerId::parse(&worker)?)?;
    settings.is_sole_worker = is_alone;
    settings.limits = limits;
    settings.prepared_per_base = 1;
    Ok(settings)
}

fn faults() -> Result<Faults, Failure> {
    match environment::text(FAULT)? {
        Some(name) => Ok(Faults::at(&name)?),
        None => Ok(Faults::none()),
    }
}
