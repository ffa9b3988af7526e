//! Whole runs on a pool that is not real, whose faults must be found, told apart and cut down.

mod fake;

use fake::{Fake, Faults};
use innkeeper_test_fuzz::{Run, RunError, Sandboxes, Source, Wish, World, draw};

fn wish(seed: u64, source: Source) -> Wish {
    Wish {
        seed,
        source,
        full_every: 4,
        failures: 3,
        in_place: false,
    }
}

/// A run as the command makes it, with so many workers.
async fn run(pool: &Fake, wish: Wish, workers: usize) -> Result<Run, RunError> {
    let mut pool = pool.clone();
    let run = Run::prepare(&mut pool, wish).await?;
    let works = (0..workers).map(|_| {
        let (run, mut pool) = (&run, pool.clone());
        async move { run.work(&mut pool, &()).await }
    });
    for worked in futures_of(works).await {
        worked?;
    }
    run.settle(&mut pool).await?;
    run.shrink(&mut pool).await?;
    Ok(run)
}

/// All of them in turns, on this thread.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in all.iter_mut().filter(|(_, output)| output.is_none()) {
            if let std::task::Poll::Ready(done) = future.as_mut().poll(context) {
                *output = Some(done);
            }
        }
        if all.iter().all(|(_, output)| output.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}

#[tokio::test]
async fn a_sound_pool_has_every_reset_looked_at_and_no_lease_lost() {
    for workers in [1, 3] {
        let pool = Fake::default();
        let run = run(&pool, wish(1, Source::Drawn(200)), workers)
            .await
            .expect("a run");
        let tally = run.tally();
        assert_eq!(
            (tally.iterations, tally.clean, tally.checked),
            (200, 200, 200)
        );
        assert_eq!(
            (tally.tainted, tally.false_clean, tally.odd_fresh),
            (0, 0, 0)
        );
        assert!(tally.uncovered().is_empty(), "{:?}", tally.uncovered());
        assert_eq!(pool.lost(), 0);
    }
}

#[tokio::test]
async fn what_a_reset_forgets_is_found_and_cut_down_to_its_line() {
    let forgotten = "setxattr";
    let pool = Fake::with(Faults {
        forgotten: vec![forgotten],
        ..Faults::default()
    });
    let run = run(&pool, wish(5, Source::Drawn(500)), 2)
        .await
        .expect("a run");
    let failures = run.failures();
    let tally = run.tally();
    assert!(!failures.is_empty() && tally.iterations < 500, "{tally:?}");
    assert_eq!(tally.false_clean, failures.len() as u64);
    for failure in failures {
        assert!(failure.repeats);
        let verbs: Vec<_> = failure
            .script
            .operations
            .iter()
            .map(|o| o.verb().name)
            .collect();
        assert_eq!(verbs, [forgotten], "{}", failure.script);
        assert!(
            failure.differences[0].contains(forgotten),
            "{:?}",
            failure.differences
        );
    }
    assert_eq!(pool.lost(), 0);
}

#[tokio::test]
async fn two_faults_that_meet_in_one_script_leave_one_line() {
    let pool = Fake::with(Faults {
        forgotten: vec!["child", "daemon"],
        ..Faults::default()
    });
    let script = draw(1, 1, &World::default()).to_string();
    let whole = format!("{script}child\nspin\ndaemon\n").parse_script();
    let run = run(&pool, wish(1, Source::Given(vec![whole])), 1)
        .await
        .expect("a run");
    let [failure] = &run.failures()[..] else {
        panic!("{:?}", run.failures());
    };
    assert_eq!(failure.script.operations.len(), 1, "{}", failure.script);
}

#[tokio::test]
async fn taints_and_ends_are_counted_by_cause_and_are_no_failures() {
    let pool = Fake::with(Faults {
        noticed: vec!["mkdir"],
        deadly: vec!["spin"],
        ..Faults::default()
    });
    let scripts = ["mkdir /a 0755\n", "spin\n", "child\n", "mkdir /b 0755\n"];
    let scripts = scripts.map(ParseScript::parse_script).to_vec();
    let run = run(&pool, wish(1, Source::Given(scripts)), 1)
        .await
        .expect("a run");
    let tally = run.tally();
    assert_eq!((tally.iterations, tally.clean, tally.tainted), (4, 1, 3));
    assert_eq!(tally.causes.get("mkdir"), Some(&2));
    assert_eq!(tally.causes.get("its end: the sandbox ended"), Some(&1));
    assert_eq!((tally.false_clean, pool.lost()), (0, 0));
}

#[tokio::test]
async fn fresh_sandboxes_that_differ_end_the_run() {
    let pool = Fake::with(Faults {
        odd_from: Some(14),
        ..Faults::default()
    });
    let error = run(&pool, wish(1, Source::Drawn(500)), 1)
        .await
        .expect_err("no run");
    assert!(
        matches!(&error, RunError::Odd(differences) if differences[0].contains("odd")),
        "{error}"
    );

    let early = Fake::with(Faults {
        odd_from: Some(3),
        ..Faults::default()
    });
    let error = run(&early, wish(1, Source::Drawn(1)), 1)
        .await
        .expect_err("no run");
    assert!(matches!(error, RunError::Unfit(_)), "{error}");
}

#[tokio::test]
async fn a_pool_without_sandboxes_is_said_so() {
    let mut pool = Fake::with(Faults {
        empty: true,
        ..Faults::default()
    });
    assert!(pool.lease().await.is_err());
    let error = run(&pool, wish(1, Source::Drawn(1)), 1)
        .await
        .expect_err("no run");
    assert_eq!(
        error.to_string(),
        "no sandbox could be leased: there is none"
    );
}

/// Scripts of tests are right.
trait ParseScript {
    fn parse_script(self) -> innkeeper_test_script::Script;
}

impl<T: AsRef<str>> ParseScript for T {
    fn parse_script(self) -> innkeeper_test_script::Script {
        innkeeper_test_script::Script::parse(self.as_ref()).expect("a script")
    }
}
