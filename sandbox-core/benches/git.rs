//! What a tree costs, beside what raw git takes for one: the promise is that a prepared tree is adopted
//! within 10 ms, of 100 times 99.
//!
//! At the end the ratios are printed, of calls that took turns in one run.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark waits for the raw gits that it compares with"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{
    AuthScopeHash, BaseRef, BranchName, CacheKey, LocalPath, PreparedTreeId, RepoName, RepoUrl,
    WorkspaceId, WorkspaceMode,
};
use unstall_sandbox_core::git::{GitTimes, LocalGit};
use unstall_sandbox_core::ports::caches::{CacheSource, RepoCacheProvider};
use unstall_sandbox_core::ports::workspaces::{BranchRule, TreeRequest, WorkspaceProvider};

/// Files in the repository: a medium one.
const FILES: usize = 1000;

/// Rounds in which each contestant has its turn, for the ratios: enough for a 99th of 100.
const ROUNDS: usize = 100;

/// Threads for what waits for the disk.
const THREADS: usize = 4;

/// What is compared.
struct Contest {
    folder: TempDir,
    git: LocalGit,
    cache: LocalPath,
    base: BaseRef,
    branch: BranchRule,
    number: usize,
}

impl Contest {
    async fn prepare() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let seed = folder.path().join("seed");
        raw_git(
            folder.path(),
            &["init", "--quiet", "--initial-branch=main", "seed"],
        );
        for number in 0..FILES {
            let path = seed.join(format!("src/part{}", number % 40));
            std::fs::create_dir_all(&path).expect("a folder");
            let text = format!("line {number}\n").repeat(100);
            std::fs::write(path.join(format!("{number}.txt")), text).expect("a file");
        }
        raw_git(&seed, &["add", "--all"]);
        raw_git(&seed, &["commit", "--quiet", "-m", "files"]);
        let pool = BlockingPool::new(THREADS).expect("threads");
        let root = folder.path().join("root");
        let git = LocalGit::open(root, GitTimes::default(), pool)
            .await
            .expect("git");
        let url = RepoUrl::parse(&format!("file://{}", seed.display())).expect("a URL");
        let repo = RepoName::parse("octo/hello").expect("a name");
        let key = CacheKey::new(url.host().clone(), &repo, AuthScopeHash::public());
        let cache = RepoCacheProvider::path_of(&git, &key);
        let source = CacheSource {
            path: &cache,
            url: &url,
            token: None,
        };
        git.ensure(source).await.expect("a cache");
        Self {
            folder,
            git,
            cache,
            base: BaseRef::parse("main").expect("a base"),
            branch: BranchRule::On {
                branch: BranchName::parse("agent/edits").expect("a branch"),
                may_create: true,
            },
            number: 0,
        }
    }

    fn path(&self) -> LocalPath {
        let id = WorkspaceId::generate();
        WorkspaceProvider::path_of(&self.git, &self.cache, WorkspaceMode::Edit, id)
    }

    fn request<'a>(&'a self, path: &'a LocalPath) -> TreeRequest<'a> {
        TreeRequest {
            path,
            base: &self.base,
            branch: &self.branch,
        }
    }

    /// As raw git makes a tree, on a branch of its own.
    fn raw_add(&mut self, more: &[&str]) -> Duration {
        self.number += 1;
        let (path, branch) = (self.raw_path(), format!("raw-{}", self.number));
        let text = path.to_string_lossy().into_owned();
        let mut arguments = vec!["worktree", "add", "--quiet", "-b", &branch];
        arguments.extend(more);
        arguments.extend([text.as_str(), "main"]);
        let cache = self.cache.under(self.git.root());
        let started = Instant::now();
        raw_git(&cache, &arguments);
        let took = started.elapsed();
        raw_git(&cache, &["worktree", "remove", "--force", &text]);
        took
    }

    fn raw_path(&self) -> PathBuf {
        self.folder.path().join(format!("raw-{}", self.number))
    }

    async fn create(&self) -> Duration {
        let path = self.path();
        let started = Instant::now();
        self.git.create(self.request(&path)).await.expect("a tree");
        let took = started.elapsed();
        WorkspaceProvider::remove(&self.git, &path)
            .await
            .expect("removed");
        took
    }

    /// Only the adoption counts: the tree is prepared before anybody asks.
    async fn adopt(&self) -> Duration {
        let prepared = self
            .git
            .prepared_path_of(&self.cache, PreparedTreeId::generate());
        self.git
            .prepare(&prepared, &self.base)
            .await
            .expect("a tree");
        let path = self.path();
        let started = Instant::now();
        self.git
            .adopt(&prepared, self.request(&path))
            .await
            .expect("a tree");
        let took = started.elapsed();
        WorkspaceProvider::remove(&self.git, &path)
            .await
            .expect("removed");
        took
    }
}

fn raw_git(directory: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .current_dir(directory)
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Bench")
        .env("GIT_AUTHOR_EMAIL", "bench@example.org")
        .env("GIT_COMMITTER_NAME", "Bench")
        .env("GIT_COMMITTER_EMAIL", "bench@example.org")
        .status()
        .expect("git runs");
    assert!(status.success(), "git {arguments:?}");
}

fn summed(rounds: u64, mut once: impl FnMut() -> Duration) -> Duration {
    (0..rounds).map(|_| once()).sum()
}

fn trees(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut contest = runtime.block_on(Contest::prepare());
    let mut group = criterion.benchmark_group("a tree of 1000 files");
    group.sample_size(10);
    group.bench_function("raw git worktree add", |bencher| {
        bencher.iter_custom(|rounds| summed(rounds, || contest.raw_add(&[])));
    });
    group.bench_function("created", |bencher| {
        bencher.iter_custom(|rounds| summed(rounds, || runtime.block_on(contest.create())));
    });
    group.bench_function("adopted", |bencher| {
        bencher.iter_custom(|rounds| summed(rounds, || runtime.block_on(contest.adopt())));
    });
    group.finish();
    print_ratios(&runtime, &mut contest);
}

fn print_ratios(runtime: &Runtime, contest: &mut Contest) {
    let names = [
        "raw git worktree add",
        "the same without files",
        "created",
        "adopted",
    ];
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(contest.raw_add(&[]));
        times[1].push(contest.raw_add(&["--no-checkout"]));
        times[2].push(runtime.block_on(contest.create()));
        times[3].push(runtime.block_on(contest.adopt()));
    }
    times.iter_mut().for_each(|times| times.sort());
    let floor = times[0][ROUNDS / 2].as_secs_f64();
    for (name, times) in names.iter().zip(&times) {
        let (p50, p99) = (times[ROUNDS / 2], times[ROUNDS * 99 / 100]);
        let ratio = p50.as_secs_f64() / floor;
        eprintln!("{name}: p50 {p50:.1?}, p99 {p99:.1?}, {ratio:.3} of raw git's p50");
    }
}

criterion_group!(benches, trees);
criterion_main!(benches);
