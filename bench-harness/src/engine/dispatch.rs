//! The open model on one thread: arrivals at their own times, served by whichever user is free.
//!
//! Users sit in a lobby, and the one who got up last is asked first, so that few connections are
//! in use and the others rest. An arrival that finds nobody waits, keeps the moment at which it
//! was due, and is served before any later one. What waits is not kept in a list: it is the
//! stretch of the schedule between two readers of it, so that a rate far above what the service
//! can do costs no memory.

use std::cell::RefCell;
use std::io;
use std::iter::{Skip, StepBy};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use unstall_results::record::OpenBlock;
use unstall_scenarios::plan::{Arrivals as Kind, Stage};

use super::pacer::Pacer;
use super::schedule::{Offsets, Schedule};
use super::spec::{OpenLoad, Warmup};
use super::user::Shared;

/// After so many late arrivals in a row, users get their turn.
const LATE_IN_A_ROW_MAX: u32 = 32;
/// A warm-up at a low rate lasts no longer for the sake of a number of arrivals.
const WARMUP_MAX: Duration = Duration::from_secs(10);

/// One pass through the scenario that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Its place in the whole schedule, over all threads.
    pub(super) index: u64,
    pub(super) intended: Instant,
    /// Nobody was free when it came.
    pub(super) has_waited: bool,
    /// False during warm-up.
    pub(super) is_measured: bool,
}

/// One thread's arrivals, in order.
#[derive(Debug, Clone)]
struct Arrivals {
    offsets: StepBy<Skip<Offsets>>,
    begun: Instant,
    index: u64,
    step: u64,
    is_measured: bool,
}

impl Arrivals {
    /// Every `lane.of`-th arrival, from the `lane.index`-th on.
    fn new(schedule: &Schedule, lane: Lane, begun: Instant, is_measured: bool) -> Self {
        Self {
            offsets: schedule.offsets().skip(lane.index).step_by(lane.of),
            begun,
            index: lane.index as u64,
            step: lane.of as u64,
            is_measured,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let intended = self.begun + self.offsets.next()?;
        let index = self.index;
        self.index += self.step;
        Some(Arrival {
            index,
            intended,
            has_waited: false,
            is_measured: self.is_measured,
        })
    }
}

/// One thread's part of a schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    pub(super) index: usize,
    pub(super) of: usize,
}

/// Where a user waits for an arrival.
#[derive(Debug, Default)]
pub(super) struct Seat {
    arrival: RefCell<Option<Arrival>>,
    called: Notify,
}

/// Users that are free, on all threads together.
#[derive(Debug, Clone, Default)]
pub(super) struct FreeUsers(Arc<AtomicU32>);

/// Where free users and waiting arrivals of one thread meet.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    everywhere: FreeUsers,
    state: RefCell<State>,
    /// Somebody sat down, or an arrival has ended.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The last one sat down last.
    free: Vec<Rc<Seat>>,
    /// Reads the schedule up to the next arrival that is to be served.
    unserved: Option<Arrivals>,
    /// Arrivals that are due and wait for a user.
    queued: u64,
    busy: u64,
    ended: u64,
    /// Arrivals that had to wait although a user was free on another thread.
    missed: u64,
    counts: OpenBlock,
    quarters: Quarters,
}

/// Least backlog that the arrivals of each quarter of the schedule have met.
#[derive(Debug, Default)]
struct Quarters {
    begun: Option<Instant>,
    lasts: Duration,
    least: [Option<u64>; 4],
    last_arrivals: u64,
}

impl Quarters {
    fn met(&mut self, intended: Instant, backlog: u64) {
        let Some(begun) = self.begun else {
            return;
        };
        let after = intended.saturating_duration_since(begun).as_secs_f64();
        let quarter = ((after * 4.0 / self.lasts.as_secs_f64()) as usize).min(3);
        self.last_arrivals += u64::from(quarter == 3);
        let least = &mut self.least[quarter];
        *least = Some(least.map_or(backlog, |least| least.min(backlog)));
    }
}

impl Lobby {
    pub(super) fn new(everywhere: &FreeUsers) -> Self {
        Self {
            everywhere: everywhere.clone(),
            ..Self::default()
        }
    }

    /// Sits down and waits for an arrival to serve.
    pub(super) async fn next(&self, seat: &Rc<Seat>) -> Arrival {
        if let Some(arrival) = self.take_waiting() {
            return arrival;
        }
        self.sit_down(Rc::clone(seat));
        self.changed.notify_one();
        loop {
            seat.called.notified().await;
            if let Some(arrival) = seat.arrival.take() {
                return arrival;
            }
        }
    }

    fn sit_down(&self, seat: Rc<Seat>) {
        self.state.borrow_mut().free.push(seat);
        self.everywhere.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The arrival that waits longest, if any does.
    fn take_waiting(&self) -> Option<Arrival> {
        let mut state = self.state.borrow_mut();
        if state.queued == 0 {
            return None;
        }
        let arrival = state.unserved.as_mut().and_then(Iterator::next)?;
        state.queued -= 1;
        state.begin(&arrival);
        Some(Arrival {
            has_waited: true,
            ..arrival
        })
    }

    /// An arrival is due. True if somebody was free to serve it.
    fn arrive(&self, arrival: Arrival) -> bool {
        let mut state = self.state.borrow_mut();
        let backlog = state.busy + state.queued;
        if arrival.is_measured {
            state.counts.arrivals += 1;
            state.quarters.met(arrival.intended, backlog);
        }
        // Nobody is free while others wait: who ends serves the first of them.
        let Some(seat) = state.free.pop() else {
            state.queued += 1;
            let is_missed = self.everywhere.0.load(Ordering::Relaxed) > 0;
            state.missed += u64::from(arrival.is_measured && is_missed);
            return false;
        };
        self.everywhere.0.fetch_sub(1, Ordering::Relaxed);
        if let Some(unserved) = &mut state.unserved {
            // It stands at this very arrival.
            unserved.next();
        }
        state.begin(&arrival);
        seat.arrival.replace(Some(arrival));
        seat.called.notify_one();
        true
    }

    /// An arrival has been served to its end.
    pub(super) fn ended(&self, arrival: &Arrival) {
        let mut state = self.state.borrow_mut();
        state.busy = state.busy.saturating_sub(1);
        state.ended += u64::from(arrival.is_measured);
        self.changed.notify_one();
    }

    /// Waits until `is_so`.
    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        while !is_so(&self.state.borrow()) {
            self.changed.notified().await;
        }
    }

    /// Arrivals that wait and never will be served, in order; the queue is empty afterwards.
    pub(super) fn give_up_waiting(&self) -> impl Iterator<Item = Arrival> {
        let mut state = self.state.borrow_mut();
        let queued = usize::try_from(std::mem::take(&mut state.queued)).unwrap_or(usize::MAX);
        let waiting = state.unserved.take();
        waiting.into_iter().flatten().take(queued)
    }

    /// Measured arrivals that had to wait although a user was free on another thread.
    pub(super) fn missed_with_users_free(&self) -> u64 {
        self.state.borrow().missed
    }

    /// What became of the measured arrivals, before [`Lobby::give_up_waiting`].
    pub(super) fn counts(&self) -> OpenBlock {
        let state = self.state.borrow();
        let [_, _, third, fourth] = state.quarters.least;
        OpenBlock {
            queued_at_end: state.queued,
            backlog_least_third_quarter: third.unwrap_or(0),
            backlog_least_fourth_quarter: fourth.unwrap_or(0),
            arrivals_fourth_quarter: state.quarters.last_arrivals,
            ..state.counts.clone()
        }
    }
}

impl State {
    fn begin(&mut self, arrival: &Arrival) {
        self.busy += 1;
        if arrival.is_measured {
            self.counts.begun += 1;
            self.counts.in_flight_most = self.counts.in_flight_most.max(self.busy);
        }
    }
}

/// Lets one thread's arrivals go when they are due.
pub(super) struct Dispatcher {
    pub(super) shared: Rc<Shared>,
    pub(super) lobby: Rc<Lobby>,
    pub(super) load: OpenLoad,
    pub(super) lane: Lane,
    /// Users of this thread.
    pub(super) users: u32,
    pub(super) seed: u64,
    pub(super) grace: Duration,
}

impl Dispatcher {
    /// Waits until all users are set up, and warms the service and some connections up at the
    /// first stage's rate.
    pub(super) async fn warm_up(&self, warmup: Warmup) -> io::Result<()> {
        let users = self.users as usize;
        self.lobby.until(|state| state.free.len() == users).await;
        let Some(schedule) = self.warm_up_schedule(warmup) else {
            return Ok(());
        };
        let pacer = Pacer::new()?;
        let arrivals = Arrivals::new(&schedule, self.lane, Instant::now(), false);
        self.follow(arrivals, &pacer).await?;
        // A rate beyond the service's would make the warm-up last as long as its queue.
        drop(self.lobby.give_up_waiting());
        tokio::select! {
            () = self.lobby.until(|state| state.busy == 0) => {}
            () = self.shared.liveness.given_up() => {}
        }
        Ok(())
    }

    /// None if there is none to be, or not one arrival fits into it.
    fn warm_up_schedule(&self, warmup: Warmup) -> Option<Schedule> {
        let rate = self.load.stages.first()?.rate;
        let rounds = Duration::try_from_secs_f64(f64::from(warmup.rounds_per_user) / rate);
        let rounds = rounds.map_or(WARMUP_MAX, |time| time.min(WARMUP_MAX));
        let duration = warmup.lasting_at_least.max(rounds);
        Schedule::new(Kind::Constant, &[Stage { rate, duration }], self.seed).ok()
    }

    /// Follows the schedule from the barrier to its end, and waits for what is under way, but
    /// not beyond the grace time. Stopped, it returns when what is under way has ended.
    pub(super) async fn measure(&self, schedule: &Schedule, begun: Instant) -> io::Result<()> {
        {
            let mut state = self.lobby.state.borrow_mut();
            state.counts.in_flight_max = self.users;
            state.quarters.begun = Some(begun);
            state.quarters.lasts = schedule.duration();
        }
        let pacer = Pacer::new()?;
        let arrivals = Arrivals::new(schedule, self.lane, begun, true);
        self.follow(arrivals, &pacer).await?;
        let end = begun + schedule.duration();
        self.wait_until(end, &pacer).await?;
        self.note_end(begun, end);
        let over = |state: &State| {
            let none_waits = state.queued == 0 || self.shared.closing.get();
            state.busy == 0 && none_waits
        };
        tokio::select! {
            () = self.lobby.until(over) => {}
            () = tokio::time::sleep(self.grace), if !self.shared.closing.get() => {}
        }
        Ok(())
    }

    /// Releases each arrival at its time, until the last one or until nothing more is to be sent.
    async fn follow(&self, arrivals: Arrivals, pacer: &Pacer) -> io::Result<()> {
        self.lobby.state.borrow_mut().unserved = Some(arrivals.clone());
        let mut late_in_a_row = 0;
        for arrival in arrivals {
            if arrival.intended > Instant::now() {
                late_in_a_row = 0;
                self.wait_until(arrival.intended, pacer).await?;
            } else {
                late_in_a_row += 1;
                if late_in_a_row == LATE_IN_A_ROW_MAX {
                    late_in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
            if self.shared.closing.get() {
                break;
            }
            if !arrival.is_measured && self.shared.liveness.has_given_up() {
                break;
            }
            if !self.lobby.arrive(arrival) && arrival.is_measured {
                // Noticed in time or not, the rest of its wait is not ours.
                self.shared.noticed(arrival.intended, Instant::now());
            }
        }
        Ok(())
    }

    /// Returns at `moment`, or when nothing more is to be sent.
    async fn wait_until(&self, moment: Instant, pacer: &Pacer) -> io::Result<()> {
        let closed = self.shared.closed.notified();
        if self.shared.closing.get() {
            return Ok(());
        }
        tokio::select! {
            biased;
            waited = pacer.until(moment) => waited,
            () = closed => Ok(()),
        }
    }

    /// The schedule is over, or was left.
    fn note_end(&self, begun: Instant, planned: Instant) {
        let end = planned.min(Instant::now());
        let mut state = self.lobby.state.borrow_mut();
        state.counts.ended_in_time = state.ended;
        let lasted = end.saturating_duration_since(begun).as_millis();
        state.counts.duration_ms = u64::try_from(lasted).unwrap_or(u64::MAX);
        // A block at one arrival per second has not made two in one.
        self.shared.lasts_until(end);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;
    use std::sync::mpsc;

    use unstall_scenarios::{Inputs, Plan};

    use super::*;
    use crate::engine::generator;
    use crate::engine::hosts::Hosts;
    use crate::engine::liveness::Liveness;
    use crate::engine::progress::Progress;
    use crate::engine::series::SharedSeries;
    use crate::engine::target::Target;
    use crate::engine::user::{Share, User, Values, Watch};

    fn arrivals(rate: f64, lane: Lane) -> Arrivals {
        let stage = Stage {
            rate,
            duration: Duration::from_secs(1),
        };
        let schedule = Schedule::new(Kind::Constant, &[stage], 0).expect("a schedule");
        Arrivals::new(&schedule, lane, Instant::now(), true)
    }

    const ALONE: Lane = Lane { index: 0, of: 1 };

    /// A lobby that is to serve these arrivals.
    fn lobby(arrivals: &Arrivals) -> Lobby {
        let lobby = Lobby::default();
        lobby.state.borrow_mut().unserved = Some(arrivals.clone());
        lobby
    }

    fn sit(lobby: &Lobby) -> Rc<Seat> {
        let seat = Rc::new(Seat::default());
        lobby.sit_down(Rc::clone(&seat));
        seat
    }

    #[test]
    fn who_sat_down_last_is_asked_first() {
        let mut arrivals = arrivals(10.0, ALONE);
        let lobby = lobby(&arrivals);
        let (first, last) = (sit(&lobby), sit(&lobby));
        assert!(lobby.arrive(arrivals.next().expect("an arrival")));
        assert!(first.arrival.borrow().is_none() && last.arrival.borrow().is_some());
    }

    #[test]
    fn who_waits_is_served_in_order_and_keeps_its_time() {
        let mut arrivals = arrivals(10.0, ALONE);
        let begun = arrivals.begun;
        let lobby = lobby(&arrivals);
        sit(&lobby);
        for _ in 0..4 {
            lobby.arrive(arrivals.next().expect("an arrival"));
        }
        let counts = lobby.counts();
        assert_eq!(
            (counts.arrivals, counts.begun, counts.queued_at_end),
            (4, 1, 3)
        );
        let served = lobby.take_waiting().expect("it waits");
        assert!(served.has_waited);
        assert_eq!(
            (served.index, served.intended),
            (1, begun + Duration::from_millis(100))
        );
        // The rest is given up, in order.
        let rest: Vec<u64> = lobby
            .give_up_waiting()
            .map(|arrival| arrival.index)
            .collect();
        assert_eq!(rest, [2, 3]);
        assert_eq!(lobby.take_waiting(), None);
    }

    /// A user that drops what has waited for too long never waits itself.
    #[test]
    fn overdue_arrivals_leave_others_their_turns() {
        const OVERDUE: u64 = 1_000;
        let text = "name = \"t\"\ndescribe = \"t\"\n[[request]]\nname = \"it\"\nmethod = \"GET\"\n\
                    path = \"/\"\ntimeout = \"1ms\"\n";
        let plan = Plan::parse(text, Path::new("t.toml"), &Inputs::default());
        let plan = Arc::new(plan.expect("a scenario"));
        let progress = Arc::new(Progress::new());
        let shared = Rc::new(Shared {
            hosts: Arc::new(Hosts::of(&plan, &Target::loopback(1)).expect("hosts")),
            series: Arc::new(SharedSeries::new(Arc::clone(&progress), false)),
            liveness: Arc::new(Liveness::new(1, Duration::from_secs(60))),
            times: Arc::default(),
            measured: RefCell::new(None),
            closing: Cell::new(false),
            closed: Notify::new(),
            progress,
            plan,
        });
        let arrivals = arrivals(1e6, ALONE);
        shared.begin(arrivals.begun);
        let lobby = Rc::new(lobby(&arrivals));
        lobby.state.borrow_mut().queued = OVERDUE;
        std::thread::sleep(Duration::from_millis(10));
        let share = Share {
            user: 0,
            users: 1,
            rounds: None,
            warmup: Warmup::default(),
            seed: 0,
        };
        let turns = generator::block_on(async {
            let user = User::new(shared, share, Values::new(), Watch::default());
            let (events, _nobody) = mpsc::channel();
            tokio::task::spawn_local(user.serve(events, Rc::clone(&lobby)));
            let mut turns = 0;
            while lobby.state.borrow().ended < OVERDUE {
                tokio::task::yield_now().await;
                turns += 1;
            }
            turns
        });
        let turns = turns.expect("a runtime");
        assert!(turns >= OVERDUE / 32, "{turns}");
    }

    #[test]
    fn lanes_keep_the_places_of_the_whole_schedule() {
        let lane = |index| arrivals(10.0, Lane { index, of: 3 });
        let indexes = |index| lane(index).map(|arrival| arrival.index).collect::<Vec<_>>();
        assert_eq!(indexes(0), [0, 3, 6, 9]);
        assert_eq!(indexes(2), [2, 5, 8]);
    }

    #[test]
    fn a_backlog_that_falls_in_between_is_no_growth() {
        let begun = Instant::now();
        let mut quarters = Quarters {
            begun: Some(begun),
            lasts: Duration::from_secs(4),
            ..Quarters::default()
        };
        for (ms, backlog) in [(2_100, 40), (2_500, 3), (3_200, 90), (3_900, 4), (4_000, 7)] {
            quarters.met(begun + Duration::from_millis(ms), backlog);
        }
        assert_eq!(quarters.least, [None, None, Some(3), Some(4)]);
        assert_eq!(quarters.last_arrivals, 3);
    }
}
