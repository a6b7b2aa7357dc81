//! The monitor as its user holds it: built once, installed into one runtime, cloned at will.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;

use crate::cause::Cause;
use crate::cells::{EndpointCells, Part};
use crate::counters::CounterCells;
use crate::endpoints::EndpointRegistry;
use crate::histogram::HistogramCells;
use crate::kernel_canary::{self, KernelCounters};
use crate::layer::{MatchedRoute, MonitorLayer};
use crate::meter::{Meter, PollCost, PollStart};
use crate::poll_clock::Calibration;
use crate::pool::PoolCells;
use crate::readings::nanoseconds;
use crate::runtime_totals::WatchedRuntime;
use crate::stalls::{self, LongPoll, StallRing, Wanted};
use crate::warning::LongHold;
use crate::watcher::{self, Watch};
use crate::wire::{METRICS_PATH, Mode, SNAPSHOT_PATH, Snapshot};

/// Endpoints told apart unless configured otherwise.
const ENDPOINTS_MAX: usize = 256;
/// A hold above this is warned about unless configured otherwise.
const WARN_OVER: Duration = Duration::from_millis(100);

/// Watches one runtime. Clones are cheap and share all counters.
///
/// One monitor belongs to one runtime: worker numbers of two would be mixed up. The thread of a
/// current-thread runtime should stay in one `block_on`: what it sleeps between two of them looks
/// like a stall.
#[derive(Debug, Clone)]
pub struct Monitor {
    pub(crate) inner: Arc<MonitorState>,
}

#[derive(Debug)]
pub(crate) struct MonitorState {
    pub(crate) meter: Meter,
    pub(crate) mode: Mode,
    pub(crate) started: Instant,
    pub(crate) start_id: String,
    pub(crate) kernel: KernelCounters,
    pub(crate) runtime: OnceLock<WatchedRuntime>,
    pub(crate) installed: AtomicBool,
    /// Threads that Tokio has started and not yet stopped: workers and pool.
    pub(crate) threads_started: AtomicU64,
    pub(crate) lag: HistogramCells,
    pub(crate) pool: PoolCells,
    pub(crate) counters: CounterCells,
    pub(crate) lag_probed: AtomicBool,
    #[cfg_attr(
        not(feature = "axum"),
        expect(dead_code, reason = "read by the router")
    )]
    pub(crate) access: Access,
    warn_over_ns: u64,
    /// Shorter polls are nothing to speak of, neither to the log nor to who asks for stalls, and
    /// no watcher names them: the usual poll pays for one comparison.
    note_from_ns: u64,
    pub(crate) stalls: StallRing,
    pub(crate) watch: Option<Watch>,
    #[cfg(feature = "prove")]
    pub(crate) proof: crate::prove::ProofState,
}

/// Where the snapshot is served, and to whom.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) snapshot_path: String,
    pub(crate) metrics_path: String,
    pub(crate) token: Option<String>,
}

/// A path that can't be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "monitor path {path:?}: expected `/` followed by plain segments, and not another path of \
     the monitor; use something like {SNAPSHOT_PATH:?}"
)]
pub struct PathError {
    /// As given.
    pub path: String,
}

/// Settings of a [`Monitor`].
#[derive(Debug, Clone)]
pub struct MonitorBuilder {
    mode: Mode,
    warn_over: Duration,
    endpoints_max: usize,
    pool_threads_max: Option<usize>,
    access: Access,
    #[cfg(feature = "watch")]
    watch_over: Option<Duration>,
    #[cfg(feature = "prove")]
    proof: crate::prove::Proof,
}

impl Monitor {
    /// Starts with [`Mode::Counters`], a warning above 100 ms, 256 endpoints, and the paths of
    /// [`wire`](crate::wire).
    #[must_use]
    pub fn builder() -> MonitorBuilder {
        MonitorBuilder {
            mode: Mode::Counters,
            warn_over: WARN_OVER,
            endpoints_max: ENDPOINTS_MAX,
            pool_threads_max: None,
            access: Access {
                snapshot_path: SNAPSHOT_PATH.to_owned(),
                metrics_path: METRICS_PATH.to_owned(),
                token: None,
            },
            #[cfg(feature = "watch")]
            watch_over: None,
            #[cfg(feature = "prove")]
            proof: crate::prove::Proof::Off,
        }
    }

    /// Registers the monitor's thread hooks (park, unpark, start, stop) with a runtime's builder.
    ///
    /// Tokio keeps one hook of each kind: hooks set on the builder before are replaced, and
    /// hooks set after replace the monitor's. The hooks do nothing once every clone is dropped.
    pub fn install<'b>(
        &self,
        builder: &'b mut tokio::runtime::Builder,
    ) -> &'b mut tokio::runtime::Builder {
        if self.inner.installed.swap(true, Relaxed) {
            tracing::warn!(
                target: "unstall",
                "a loop monitor was installed into a second runtime, whose workers it takes for \
                 the first one's: build a monitor for each",
            );
        }
        watcher::start(&self.inner);
        if let Some(threads_max) = self.inner.pool.threads_max() {
            builder.max_blocking_threads(threads_max);
        }
        // Weak: the runtime owns the hooks and the monitor a handle of the runtime.
        let [park, unpark, start, stop] = std::array::from_fn(|_| Arc::downgrade(&self.inner));
        builder
            .on_thread_park(move || {
                if let Some(state) = park.upgrade() {
                    state.meter.on_park();
                }
            })
            .on_thread_unpark(move || {
                if let Some(state) = unpark.upgrade() {
                    state.meet_runtime();
                    state.meter.on_unpark();
                }
            })
            .on_thread_start(move || {
                if let Some(state) = start.upgrade() {
                    state.meet_runtime();
                    state.threads_started.fetch_add(1, Relaxed);
                }
            })
            .on_thread_stop(move || {
                if let Some(state) = stop.upgrade() {
                    state.threads_started.fetch_sub(1, Relaxed);
                }
            })
    }

    /// A tower layer for axum: its endpoints are axum's matched paths.
    ///
    /// Apply it with `Router::layer` or `Router::route_layer`, after the routes; where no route
    /// matched, and without the feature `axum`, requests count as
    /// [`UNMATCHED_ENDPOINT`](crate::UNMATCHED_ENDPOINT).
    #[must_use]
    pub fn layer(&self) -> MonitorLayer<MatchedRoute> {
        self.layer_by(MatchedRoute)
    }

    /// A tower layer for any service over HTTP: `route_of` gives a request's route, without its
    /// method. It must be a template, never a path with an id in it: beyond the cap, routes share
    /// [`OTHER_ENDPOINT`](crate::OTHER_ENDPOINT).
    #[must_use]
    pub fn layer_by<R>(&self, route_of: R) -> MonitorLayer<R> {
        MonitorLayer::new(self.clone(), route_of)
    }

    /// Everything the monitor knows now. Counters only grow; take differences.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.take_snapshot(Wanted::Newest)
    }

    /// The same with all [stalls](crate::wire::Stalls) that are kept after this number, and not
    /// the newest few only: a reader that comes back asks for those after the last one it has seen.
    #[must_use]
    pub fn snapshot_with_stalls_after(&self, number: u64) -> Snapshot {
        self.take_snapshot(Wanted::After(number))
    }

    fn take_snapshot(&self, stalls: Wanted) -> Snapshot {
        self.inner.meet_runtime();
        crate::snapshot::take(&self.inner, stalls)
    }

    /// The snapshot in Prometheus' text format, version 0.0.4.
    #[must_use]
    pub fn prometheus(&self) -> String {
        crate::prometheus::render(&self.snapshot())
    }

    /// How blocked time is charged.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.mode
    }
}

impl MonitorBuilder {
    /// How blocked time is charged. [`Mode::Holds`] is for monitors that can't measure it: this
    /// one can, and takes it for [`Mode::Counters`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = match mode {
            Mode::Holds => Mode::Counters,
            mode => mode,
        };
        self
    }

    /// A single poll longer than this is warned about, once a second per endpoint at most.
    #[must_use]
    pub fn warn_over(mut self, warn_over: Duration) -> Self {
        self.warn_over = warn_over;
        self
    }

    /// Watches: one thread, started when the monitor is installed, names a poll that is older than
    /// `threshold` (1 ms at least) while it still runs: why, in which system call, on which file
    /// or peer, and from which line. It says so in the log, once a second per endpoint at most,
    /// and in the snapshot's `causes`.
    ///
    /// Only on x86-64 Linux; elsewhere it warns that it can't. Lines need debug information, of
    /// which line tables are enough (`debug = "line-tables-only"` in the release profile); without
    /// them functions are named, and the snapshot says how to get lines.
    #[cfg(feature = "watch")]
    #[must_use]
    pub fn watch(mut self, threshold: Duration) -> Self {
        self.watch_over = Some(threshold);
        self
    }

    /// Endpoints told apart, and names of tasks, and names of jobs for the pool; requests, tasks
    /// and jobs of further ones share a bucket of their kind.
    #[must_use]
    pub fn endpoint_cap(mut self, endpoints_max: usize) -> Self {
        self.endpoints_max = endpoints_max;
        self
    }

    /// Threads that the blocking pool may have, 1 at least: [`Monitor::install`] tells the
    /// runtime's builder (`max_blocking_threads`), so that both know the same number. Without it,
    /// the builder is left alone and the monitor takes Tokio's default of 512 for granted.
    #[must_use]
    pub fn pool_threads_max(mut self, threads_max: usize) -> Self {
        self.pool_threads_max = Some(threads_max.max(1));
        self
    }

    /// Where the router answers with the snapshot.
    ///
    /// # Errors
    /// When the path isn't `/` and plain segments, or is the metrics' path.
    pub fn snapshot_path(mut self, path: impl Into<String>) -> Result<Self, PathError> {
        self.access.snapshot_path = plain_path(path.into(), &self.access.metrics_path)?;
        Ok(self)
    }

    /// Where the router answers in Prometheus' text format.
    ///
    /// # Errors
    /// When the path isn't `/` and plain segments, or is the snapshot's path.
    pub fn metrics_path(mut self, path: impl Into<String>) -> Result<Self, PathError> {
        self.access.metrics_path = plain_path(path.into(), &self.access.snapshot_path)?;
        Ok(self)
    }

    /// Lets who sends `Authorization: Bearer <token>` read from anywhere. An empty token is none.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.access.token = Some(token.into()).filter(|token| !token.is_empty());
        self
    }

    /// Whether every system call inside a monitored poll is caught and judged. Where the kernel
    /// can't, the [certificate](Monitor::certificate) says so.
    #[cfg(feature = "prove")]
    #[must_use]
    pub fn prove(mut self, proof: crate::prove::Proof) -> Self {
        self.proof = proof;
        self
    }

    /// Proves if `UNSTALL_PROVE` is `1` in the environment, as `unstall prove` sets it.
    #[cfg(feature = "prove")]
    #[must_use]
    pub fn prove_from_environment(self) -> Self {
        use crate::prove::Proof;
        let asked = std::env::var_os(crate::certificate::PROVE_VARIABLE);
        if asked.is_some_and(|value| value == "1") {
            self.prove(Proof::SystemCalls)
        } else {
            self.prove(Proof::Off)
        }
    }

    /// Builds the monitor. Takes about a millisecond, in which it asks the kernel on a short-lived
    /// thread whether its counters see a sleep; so build it before the runtime.
    #[must_use]
    pub fn build(self) -> Monitor {
        let watch = self.build_watch();
        let endpoints = EndpointRegistry::new(self.endpoints_max);
        let meter = Meter::new(self.mode == Mode::FullSplit, endpoints);
        let start_id = start_id(meter.id());
        let warn_over_ns = nanoseconds(self.warn_over);
        // The canary takes just the time that this needs.
        let calibration = Calibration::begin();
        let kernel = kernel_canary::probe();
        calibration.end();
        Monitor {
            inner: Arc::new(MonitorState {
                meter,
                mode: self.mode,
                started: Instant::now(),
                start_id,
                kernel,
                runtime: OnceLock::new(),
                installed: AtomicBool::new(false),
                threads_started: AtomicU64::new(0),
                lag: HistogramCells::default(),
                pool: PoolCells::new(self.endpoints_max, self.pool_threads_max),
                counters: CounterCells::default(),
                lag_probed: AtomicBool::new(false),
                access: self.access,
                warn_over_ns,
                note_from_ns: warn_over_ns.min(stalls::THRESHOLD_NS),
                stalls: StallRing::default(),
                watch,
                #[cfg(feature = "prove")]
                proof: crate::prove::ProofState::new(self.proof),
            }),
        }
    }

    #[cfg(all(feature = "watch", target_os = "linux", target_arch = "x86_64"))]
    fn build_watch(&self) -> Option<Watch> {
        self.watch_over.map(Watch::new)
    }

    #[cfg(not(all(feature = "watch", target_os = "linux", target_arch = "x86_64")))]
    #[expect(
        clippy::unused_self,
        reason = "the same call as where there is a watcher"
    )]
    fn build_watch(&self) -> Option<Watch> {
        #[cfg(feature = "watch")]
        if self.watch_over.is_some() {
            tracing::warn!(
                target: "unstall",
                "the loop monitor can't watch here: only on x86-64 Linux; it measures as ever",
            );
        }
        None
    }
}

/// What axum can serve without reading it as a pattern.
fn plain_path(path: String, taken: &str) -> Result<String, PathError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.~".contains(&byte);
    let is_taken = path == taken || path == crate::certificate::CERTIFICATE_PATH;
    if path.starts_with('/') && path.len() > 1 && path.bytes().all(plain) && !is_taken {
        Ok(path)
    } else {
        Err(PathError { path })
    }
}

/// Unique per process start, and per monitor within a process.
fn start_id(monitor: u64) -> String {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        // A clock before 1970 still leaves the process id and the monitor's number.
        .map_or(0, |duration| duration.as_nanos());
    format!("{:x}-{since_epoch:x}-{monitor:x}", std::process::id())
}

impl MonitorState {
    /// The runtime isn't known when the hooks are registered, only when they run.
    fn meet_runtime(&self) {
        if self.runtime.get().is_none()
            && let Ok(handle) = Handle::try_current()
        {
            // Another thread of the same runtime may be first.
            self.runtime.get_or_init(|| WatchedRuntime::new(&handle));
        }
    }

    /// Runs `poll` as one poll of `endpoint`, and adds its hold to that of its request.
    ///
    /// Every stretch of monitored work passes through here and nowhere else: polls of handlers,
    /// bodies, calls and tasks, and the dropping of them.
    #[inline]
    pub(crate) fn measure<T>(
        &self,
        endpoint: &EndpointCells,
        part: Part,
        request_hold_ns: &mut u64,
        poll: impl FnOnce() -> T,
    ) -> T {
        let _measured = MeasuredPoll {
            state: self,
            endpoint,
            part,
            request_hold_ns,
            start: self.meter.begin_poll(endpoint),
        };
        if let Some(watch) = &self.watch {
            watch.poll_began();
        }
        // Within a poll that is proven already, this is part of it. Dropped before the poll ends.
        #[cfg(feature = "prove")]
        let _armed = (self.proof.is_on && !crate::prove::Armed::is_on())
            .then(|| crate::prove::Armed::enter(&endpoint.proof));
        poll()
    }

    /// A poll of `endpoint`, begun then, has held its loop for long.
    #[cold]
    fn note(&self, (endpoint, part): (&EndpointCells, Part), began_ns: u64, cost: PollCost) {
        let watch = self.watch.as_ref();
        let cause = watch.and_then(|watch| watch.poll_ended(began_ns, cost.hold_ns));
        let cause = cause.as_ref();
        if cost.hold_ns > stalls::THRESHOLD_NS {
            self.stalls.note(LongPoll {
                began_ns,
                hold_ns: cost.hold_ns,
                blocked_ns: cost.blocked_ns,
                endpoint: endpoint.id,
                part,
                cause,
            });
        }
        if cost.hold_ns > self.warn_over_ns {
            self.warn(endpoint, cost, cause);
        }
    }

    fn warn(&self, endpoint: &EndpointCells, cost: PollCost, cause: Option<&Cause>) {
        if let Some(suppressed) = endpoint.warnings.admit(self.started.elapsed()) {
            LongHold {
                method: endpoint.method,
                route: &endpoint.route,
                cost,
                suppressed,
                cause,
            }
            .warn();
        }
    }
}

/// Ends the poll also when it panics.
struct MeasuredPoll<'a> {
    state: &'a MonitorState,
    endpoint: &'a EndpointCells,
    part: Part,
    request_hold_ns: &'a mut u64,
    start: Option<PollStart>,
}

impl Drop for MeasuredPoll<'_> {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            let meter = &self.state.meter;
            let cost = meter.end_poll(start, self.endpoint, self.part, self.request_hold_ns);
            if cost.hold_ns >= self.state.note_from_ns {
                let charged = (self.endpoint, self.part);
                self.state.note(charged, start.at_ns, cost);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_a_router_would_choke_on_are_refused_by_name() {
        for path in [
            "",
            "/",
            "x",
            "/{id}",
            "/*x",
            "/a b",
            "/a?b",
            "/ä",
            METRICS_PATH,
            crate::certificate::CERTIFICATE_PATH,
        ] {
            let error = Monitor::builder().snapshot_path(path).expect_err(path);
            assert!(error.to_string().contains(&format!("{path:?}")), "{error}");
        }
        assert!(Monitor::builder().snapshot_path("/internal/loop").is_ok());
        assert!(Monitor::builder().metrics_path(SNAPSHOT_PATH).is_err());
    }

    #[test]
    fn a_monitor_that_measures_blocked_time_says_so() {
        for mode in [Mode::Counters, Mode::FullSplit, Mode::Holds] {
            let mode = Monitor::builder().mode(mode).build().mode();
            assert!(mode.measures_blocked(), "{mode:?}");
        }
    }

    #[test]
    fn start_ids_differ_within_a_process() {
        let one = Monitor::builder().build();
        let two = Monitor::builder().build();
        assert_ne!(one.inner.start_id, two.inner.start_id);
    }
}
