//! Where one loop's time went, from the moments at which it left its core and came back.
//!
//! Pure arithmetic, fed with what the kernel told and what was seen. Every nanosecond between the
//! first and the last moment is in one place: on a core, pushed off it, or in a sleep; a sleep is
//! charged to what it was seen to wait for. Sleeps that ended before anybody looked are charged,
//! in this order, like those that were seen at the same place of the program on the same object;
//! to what that place's call was on right after it; or, where not even the place is known, like all
//! sleeps of this loop. How much was shared out so is told.

use std::collections::HashMap;

use super::wakes::{Absences, Slept};

/// Beyond so many places of one loop, those not seen yet are one.
const SITES_MAX: usize = 4_096;

/// So many places that aren't known to be harmless are remembered between two rounds; one is
/// enough to know that something keeps the loop.
const STRANGERS_MAX: usize = 8;

/// Where in a program a thread sleeps, and on what: enough to know it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Site {
    /// Address of the instruction after the system call.
    pub(super) pc: u64,
    /// The call's first argument: a descriptor, or the address of a lock.
    pub(super) argument: u64,
}

/// What a sleep is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Charge {
    /// It waited for events.
    Idle,
    /// It waited for the interpreter lock.
    Gil,
    /// It waited for the machine as it does for a core: for the kernel to change its memory's map,
    /// or for a thread of its own runtime to begin.
    Machine,
    /// It was kept by a named cause, by its number.
    Cause(usize),
    /// It was kept at a place that nobody could look at in time.
    Site(Site),
    /// The same, and soon after it the place's call was found to have this cause.
    Told(Site, usize),
    /// It was off its core, and that is all.
    Unknown,
}

impl Charge {
    /// Whether nobody is kept by anything that an async call would have left to others.
    pub(super) fn is_harmless(self) -> bool {
        match self {
            Self::Idle | Self::Gil | Self::Machine => true,
            Self::Cause(_) | Self::Site(_) | Self::Told(..) | Self::Unknown => false,
        }
    }
}

/// Times, together and at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) total_ns: u64,
    pub(super) longest_ns: u64,
}

impl Tally {
    fn add(&mut self, length_ns: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(length_ns);
        self.longest_ns = self.longest_ns.max(length_ns);
    }

    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// A sleep that goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sleep {
    pub(super) since_ns: u64,
    pub(super) site: Option<Site>,
    pub(super) charge: Option<Charge>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    OnCore { since_ns: u64 },
    PushedOff { since_ns: u64 },
    Asleep(Sleep),
}

/// What was seen at one place.
#[derive(Debug, Default, Clone)]
struct SiteTally {
    seen: Vec<(Charge, Tally)>,
    /// What nobody saw, by what was found out about it soon after.
    told: Vec<(Charge, Tally)>,
    /// What nobody saw, and nothing was found out about.
    unseen: Tally,
    /// Its call alone says that sleeping there keeps nobody.
    is_harmless: bool,
}

impl SiteTally {
    fn add(&mut self, charge: Option<Charge>, length_ns: u64) {
        match charge {
            Some(charge) => tally_of(&mut self.seen, charge).add(length_ns),
            None => self.unseen.add(length_ns),
        }
    }

    /// Takes so much out of a sleep that was added: it was the way back to a core.
    fn take(&mut self, charge: Option<Charge>, mut wake_ns: u64) {
        let mut take = |tally: &mut Tally| {
            let taken_ns = wake_ns.min(tally.total_ns);
            tally.total_ns -= taken_ns;
            wake_ns -= taken_ns;
        };
        match charge {
            Some(charge) => take(tally_of(&mut self.seen, charge)),
            None => {
                take(&mut self.unseen);
                // It may have been told meanwhile.
                self.told.iter_mut().rev().for_each(|(_, told)| take(told));
            }
        }
    }
}

fn tally_of(tallies: &mut Vec<(Charge, Tally)>, charge: Charge) -> &mut Tally {
    let at = tallies.iter().position(|(known, _)| *known == charge);
    let at = at.unwrap_or_else(|| {
        tallies.push((charge, Tally::default()));
        tallies.len() - 1
    });
    &mut tallies[at].1
}

/// The books of one loop.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    state: State,
    running_ns: u64,
    pushed_off_ns: u64,
    /// Ways from sleeps to a core.
    wakes_ns: u64,
    absences: Absences,
    sites: HashMap<Site, SiteTally>,
    /// Sleeps at places that nobody knows.
    elsewhere: SiteTally,
    /// Places slept at lately that aren't known to be harmless; some, if there are many.
    strangers: Vec<Site>,
}

/// The same, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) running_ns: u64,
    pub(super) runqueue_ns: u64,
    /// Each charge once, in no order.
    pub(super) sleeps: Vec<(Charge, Tally)>,
    /// Sleeps charged like others that were seen.
    pub(super) shared: Tally,
}

impl Ledger {
    /// Opens the books on a loop that is on a core or waits for one.
    pub(super) fn on_core(now_ns: u64) -> Self {
        Self::opened(State::OnCore { since_ns: now_ns })
    }

    /// Opens the books on a loop that sleeps.
    pub(super) fn asleep(now_ns: u64, site: Option<Site>) -> Self {
        Self::opened(State::Asleep(Sleep {
            since_ns: now_ns,
            site,
            charge: None,
        }))
    }

    /// New books on the same loop, which goes on in what it does.
    pub(super) fn reopened(&self, now_ns: u64) -> Self {
        Self::opened(match self.state {
            State::OnCore { .. } => State::OnCore { since_ns: now_ns },
            State::PushedOff { .. } => State::PushedOff { since_ns: now_ns },
            State::Asleep(sleep) => State::Asleep(Sleep {
                since_ns: now_ns,
                ..sleep
            }),
        })
    }

    fn opened(state: State) -> Self {
        Self {
            state,
            running_ns: 0,
            pushed_off_ns: 0,
            wakes_ns: 0,
            absences: Absences::default(),
            sites: HashMap::new(),
            elsewhere: SiteTally::default(),
            strangers: Vec::new(),
        }
    }

    /// The loop fell asleep, at a place that may be known.
    pub(super) fn sleeps(&mut self, at_ns: u64, site: Option<Site>) {
        self.close(at_ns);
        self.state = State::Asleep(Sleep {
            since_ns: at_ns,
            site,
            charge: None,
        });
    }

    /// The loop was pushed off its core.
    pub(super) fn is_pushed_off(&mut self, at_ns: u64) {
        self.close(at_ns);
        self.state = State::PushedOff { since_ns: at_ns };
    }

    /// The loop is on a core.
    pub(super) fn runs(&mut self, at_ns: u64) {
        self.close(at_ns);
        self.state = State::OnCore { since_ns: at_ns };
    }

    /// The sleep that goes on, if it sleeps.
    pub(super) fn sleep(&self) -> Option<&Sleep> {
        match &self.state {
            State::Asleep(sleep) => Some(sleep),
            State::OnCore { .. } | State::PushedOff { .. } => None,
        }
    }

    /// Says of the sleep that goes on where it is, and what it waits for where that was seen.
    pub(super) fn see(&mut self, site: Site, charge: Option<Charge>) {
        if let State::Asleep(sleep) = &mut self.state {
            sleep.site = Some(site);
            sleep.charge = charge.or(sleep.charge);
        }
    }

    /// What sleeps at a place were seen to wait for, if it was always the same.
    pub(super) fn known(&self, site: Site) -> Option<Charge> {
        match self.sites.get(&site)?.seen.as_slice() {
            [(charge, _)] => Some(*charge),
            _ => None,
        }
    }

    fn close(&mut self, at_ns: u64) {
        match self.state {
            State::OnCore { since_ns } => self.running_ns += at_ns.saturating_sub(since_ns),
            State::PushedOff { since_ns } => {
                let length_ns = at_ns.saturating_sub(since_ns);
                self.pushed_off_ns += length_ns;
                self.absences.was_pushed_off(at_ns, length_ns);
            }
            State::Asleep(sleep) => self.close_sleep(&sleep, at_ns),
        }
    }

    fn close_sleep(&mut self, sleep: &Sleep, at_ns: u64) {
        let mut slept = Slept {
            site: sleep.site,
            charge: sleep.charge,
            length_ns: at_ns.saturating_sub(sleep.since_ns),
        };
        match &mut slept.site {
            None => self.elsewhere.add(slept.charge, slept.length_ns),
            Some(site) => {
                if self.sites.len() >= SITES_MAX && !self.sites.contains_key(site) {
                    site.argument = 0;
                }
                let tally = self.sites.entry(*site).or_default();
                tally.add(slept.charge, slept.length_ns);
                if !tally.is_harmless
                    && self.strangers.len() < STRANGERS_MAX
                    && !self.strangers.contains(site)
                {
                    self.strangers.push(*site);
                }
            }
        }
        self.absences.has_slept(at_ns, slept);
    }

    /// `run_delay_ns` is what the kernel has counted as waiting for a core since this was called
    /// last. Beyond the time pushed off, that is the way from each sleep's end to a core: it comes
    /// off the sleeps that ended since, and of those until `until_ns`.
    pub(super) fn settle(&mut self, until_ns: u64, run_delay_ns: u64) {
        let (sites, elsewhere) = (&mut self.sites, &mut self.elsewhere);
        self.absences
            .settle(until_ns, run_delay_ns, |slept, share_ns| {
                let tally = match &slept.site {
                    Some(site) => sites.entry(*site).or_default(),
                    None => &mut *elsewhere,
                };
                tally.take(slept.charge, share_ns);
                self.wakes_ns += share_ns;
            });
    }

    /// Ways to a core until now are booked, or belong to sleeps that nobody was told of.
    pub(super) fn forget_wakes(&mut self) {
        self.absences.forget();
    }

    /// Whether nothing is known of sleeps at a place but the place.
    pub(super) fn is_untold(&self, site: Site) -> bool {
        let tally = self.sites.get(&site);
        tally.is_some_and(|tally| tally.seen.is_empty() && tally.unseen.count > 0)
    }

    /// Places of which nothing else is known, though they may keep somebody.
    pub(super) fn untold(&self) -> Vec<Site> {
        let strange = self.sites.iter().filter(|(_, tally)| !tally.is_harmless);
        let sites = strange.map(|(site, _)| *site);
        sites.filter(|site| self.is_untold(*site)).collect()
    }

    /// Says what the sleeps were that nobody saw at a place. For good: the same descriptor may be
    /// another file later, or none.
    pub(super) fn tell(&mut self, site: Site, cause: usize) {
        if let Some(tally) = self.sites.get_mut(&site) {
            let untold = std::mem::take(&mut tally.unseen);
            tally_of(&mut tally.told, Charge::Told(site, cause)).join(untold);
        }
    }

    /// Places slept at since this was asked last that aren't known to be harmless.
    pub(super) fn take_strangers(&mut self) -> Vec<Site> {
        std::mem::take(&mut self.strangers)
    }

    /// Sleeping at this place keeps nobody.
    pub(super) fn befriend(&mut self, site: Site) {
        if let Some(tally) = self.sites.get_mut(&site) {
            tally.is_harmless = true;
        }
    }

    /// Adds up to a moment.
    pub(super) fn totals(&self, now_ns: u64) -> Totals {
        let mut books = self.clone();
        books.runs(now_ns);
        let mut totals = Totals {
            running_ns: books.running_ns,
            runqueue_ns: books.pushed_off_ns + books.wakes_ns,
            ..Totals::default()
        };
        for (site, tally) in &books.sites {
            for (charge, seen) in &tally.seen {
                tally_of(&mut totals.sleeps, *charge).join(*seen);
            }
            for (charge, told) in &tally.told {
                totals.share(&tally.seen, *told, *charge);
            }
            totals.share(&tally.seen, tally.unseen, Charge::Site(*site));
        }
        for (charge, seen) in &books.elsewhere.seen {
            tally_of(&mut totals.sleeps, *charge).join(*seen);
        }
        let all = totals.sleeps.clone();
        totals.share(&all, books.elsewhere.unseen, Charge::Unknown);
        totals
    }
}

impl Totals {
    /// Charges sleeps that nobody saw like those that were, by their time; to `otherwise` if
    /// there were none.
    fn share(&mut self, like: &[(Charge, Tally)], unseen: Tally, otherwise: Charge) {
        if unseen.count == 0 {
            return;
        }
        let weight: u128 = like.iter().map(|(_, seen)| weight(seen)).sum();
        if weight == 0 {
            return tally_of(&mut self.sleeps, otherwise).join(unseen);
        }
        self.shared.join(unseen);
        let (mut before, mut shared) = (0, Tally::default());
        for (charge, seen) in like {
            before += self::weight(seen);
            // Shares of the running sum, so that nothing is lost by rounding.
            let until =
                |whole: u64| u64::try_from(u128::from(whole) * before / weight).unwrap_or(u64::MAX);
            let share = Tally {
                count: until(unseen.count) - shared.count,
                total_ns: until(unseen.total_ns) - shared.total_ns,
                longest_ns: if like.len() == 1 {
                    unseen.longest_ns
                } else {
                    0
                },
            };
            shared.join(share);
            tally_of(&mut self.sleeps, *charge).join(share);
        }
    }

    /// Everything together: the time watched.
    #[cfg(test)]
    pub(super) fn all_ns(&self) -> u64 {
        let sleeps: u64 = self.sleeps.iter().map(|(_, tally)| tally.total_ns).sum();
        self.running_ns + self.runqueue_ns + sleeps
    }
}

/// Time that was seen, and a sleep so short that the clock showed none still counts.
fn weight(tally: &Tally) -> u128 {
    u128::from(tally.total_ns.max(tally.count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EPOLL: Site = Site { pc: 1, argument: 3 };
    const RECEIVE: Site = Site { pc: 2, argument: 7 };

    fn tally(totals: &Totals, charge: Charge) -> Tally {
        let mut found = totals.sleeps.iter().filter(|(known, _)| *known == charge);
        found.next().map(|(_, tally)| *tally).unwrap_or_default()
    }

    #[test]
    fn a_sleep_is_charged_to_what_was_seen_in_it() {
        let mut ledger = Ledger::on_core(0);
        ledger.sleeps(10, Some(EPOLL));
        ledger.see(EPOLL, Some(Charge::Idle));
        ledger.runs(110);
        ledger.sleeps(120, None);
        ledger.see(RECEIVE, Some(Charge::Cause(0)));
        ledger.runs(170);
        ledger.is_pushed_off(175);
        ledger.runs(180);
        ledger.settle(200, 5);
        let totals = ledger.totals(200);
        assert_eq!(tally(&totals, Charge::Idle).total_ns, 100);
        let blocked = tally(&totals, Charge::Cause(0));
        assert_eq!(
            (blocked.count, blocked.total_ns, blocked.longest_ns),
            (1, 50, 50)
        );
        assert_eq!((totals.running_ns, totals.runqueue_ns), (45, 5));
        assert_eq!((totals.all_ns(), totals.shared.count), (200, 0));
    }

    #[test]
    fn a_sleep_that_nobody_saw_is_charged_like_others_at_its_place() {
        let mut ledger = Ledger::asleep(0, None);
        ledger.see(RECEIVE, Some(Charge::Cause(4)));
        ledger.runs(10);
        ledger.sleeps(10, Some(RECEIVE));
        ledger.runs(40);
        ledger.sleeps(40, Some(EPOLL));
        let totals = ledger.totals(100);
        assert_eq!(
            tally(&totals, Charge::Cause(4)),
            Tally {
                count: 2,
                total_ns: 40,
                longest_ns: 30
            }
        );
        // Nothing was ever seen there: the place is all that can be said.
        assert_eq!(tally(&totals, Charge::Site(EPOLL)).total_ns, 60);
        assert_eq!(totals.shared.total_ns, 30);
        assert_eq!(ledger.known(RECEIVE), Some(Charge::Cause(4)));
    }

    #[test]
    fn a_place_with_two_callers_shares_by_their_time_and_is_not_known() {
        let mut ledger = Ledger::on_core(0);
        for (length, cause) in [(30, 0), (10, 1)] {
            ledger.sleeps(100, None);
            ledger.see(RECEIVE, Some(Charge::Cause(cause)));
            ledger.runs(100 + length);
        }
        ledger.sleeps(200, Some(RECEIVE));
        ledger.runs(600);
        let totals = ledger.totals(600);
        assert_eq!(tally(&totals, Charge::Cause(0)).total_ns, 30 + 300);
        assert_eq!(tally(&totals, Charge::Cause(1)).total_ns, 10 + 100);
        assert_eq!(ledger.known(RECEIVE), None);
    }

    #[test]
    fn a_sleep_without_a_place_is_charged_like_all_and_alone_to_nothing() {
        let mut ledger = Ledger::on_core(0);
        ledger.sleeps(0, None);
        ledger.runs(50);
        let totals = ledger.totals(50);
        assert_eq!(tally(&totals, Charge::Unknown).total_ns, 50);
        ledger.sleeps(50, None);
        ledger.see(EPOLL, Some(Charge::Idle));
        let totals = ledger.totals(60);
        assert_eq!(tally(&totals, Charge::Idle).total_ns, 60);
        assert_eq!(
            totals.shared,
            Tally {
                count: 1,
                total_ns: 50,
                longest_ns: 50
            }
        );
    }

    #[test]
    fn a_place_is_strange_until_it_is_known_to_be_harmless() {
        let mut ledger = Ledger::on_core(0);
        let sleep = |ledger: &mut Ledger, site| {
            ledger.sleeps(0, Some(site));
            ledger.runs(1);
        };
        for site in [EPOLL, RECEIVE, EPOLL] {
            sleep(&mut ledger, site);
        }
        assert_eq!(ledger.take_strangers(), [EPOLL, RECEIVE]);
        ledger.befriend(EPOLL);
        for site in [EPOLL, RECEIVE] {
            sleep(&mut ledger, site);
        }
        assert_eq!(ledger.take_strangers(), [RECEIVE]);
        assert_eq!(ledger.take_strangers(), []);
    }

    #[test]
    fn the_way_back_to_a_core_is_no_sleep() {
        let mut ledger = Ledger::on_core(0);
        for (at, charge) in [(0, Charge::Idle), (1_000, Charge::Cause(0))] {
            ledger.sleeps(at, None);
            ledger.see(EPOLL, Some(charge));
            ledger.runs(at + 100);
        }
        ledger.settle(2_000, 60);
        let totals = ledger.totals(2_000);
        assert_eq!(totals.runqueue_ns, 60);
        assert_eq!(tally(&totals, Charge::Idle).total_ns, 70);
        assert_eq!(tally(&totals, Charge::Cause(0)).total_ns, 70);
    }

    #[test]
    fn what_was_told_of_a_sleep_stays_whatever_the_machine_does_later() {
        let mut ledger = Ledger::on_core(0);
        let mut sleep = |from, until, run_delay_ns, site, charge| {
            ledger.sleeps(from, Some(site));
            ledger.see(site, Some(charge));
            ledger.runs(until);
            ledger.settle(until, run_delay_ns);
            let totals = ledger.totals(until);
            (
                tally(&totals, Charge::Cause(0)).total_ns,
                totals.runqueue_ns,
            )
        };
        assert_eq!(sleep(0, 100, 40, RECEIVE, Charge::Cause(0)), (60, 40));
        // A quiet machine gives nothing back, and a busy one takes nothing away.
        assert_eq!(sleep(200, 1_200, 0, EPOLL, Charge::Idle), (60, 40));
        assert_eq!(sleep(2_000, 3_000, 900, EPOLL, Charge::Idle), (60, 940));
    }

    #[test]
    fn what_a_call_was_on_is_told_once() {
        let mut ledger = Ledger::on_core(0);
        let sleep = |ledger: &mut Ledger, from| {
            ledger.sleeps(from, Some(RECEIVE));
            ledger.runs(from + 50);
        };
        sleep(&mut ledger, 0);
        assert_eq!(ledger.untold(), [RECEIVE]);
        ledger.tell(RECEIVE, 4);
        assert_eq!(ledger.untold(), []);
        ledger.settle(60, 10);
        // The descriptor is another file now.
        sleep(&mut ledger, 100);
        ledger.tell(RECEIVE, 5);
        let totals = ledger.totals(200);
        assert_eq!(tally(&totals, Charge::Told(RECEIVE, 4)).total_ns, 40);
        assert_eq!(tally(&totals, Charge::Told(RECEIVE, 5)).total_ns, 50);
        assert_eq!((totals.all_ns(), totals.shared.count), (200, 0));
        // Who sees one knows the others.
        ledger.sleeps(200, None);
        ledger.see(RECEIVE, Some(Charge::Cause(6)));
        ledger.runs(210);
        assert_eq!(
            tally(&ledger.totals(210), Charge::Cause(6)).total_ns,
            40 + 50 + 10
        );
        assert!(!ledger.is_untold(RECEIVE));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Sleep(Option<u64>, Option<usize>),
        PushedOff,
        Run,
        Settle(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (
                proptest::option::of(0..5u64),
                proptest::option::of(0..4usize)
            )
                .prop_map(|(site, cause)| Step::Sleep(site, cause)),
            Just(Step::PushedOff),
            Just(Step::Run),
            (0..20_000u64).prop_map(Step::Settle),
        ]
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_counted_twice(
            steps in proptest::collection::vec((step(), 0..10_000u64), 0..60),
        ) {
            let (mut ledger, mut now) = (Ledger::on_core(5), 5);
            let mut sleeps = 0;
            for (step, length) in steps {
                match step {
                    Step::Sleep(site, cause) => {
                        let site = site.map(|argument| Site { pc: 9, argument });
                        ledger.sleeps(now, site);
                        sleeps += 1;
                        if let (Some(site), Some(cause)) = (site, cause) {
                            ledger.see(site, Some(Charge::Cause(cause)));
                        }
                    }
                    Step::PushedOff => ledger.is_pushed_off(now),
                    Step::Run => ledger.runs(now),
                    Step::Settle(run_delay_ns) => ledger.settle(now, run_delay_ns),
                }
                now += length;
            }
            let totals = ledger.totals(now);
            prop_assert_eq!(totals.all_ns(), now - 5);
            let counted: u64 = totals.sleeps.iter().map(|(_, tally)| tally.count).sum();
            prop_assert_eq!(counted, sleeps);
        }
    }
}
