//! Fuzzing real sandboxes of every form of slot with the command that users have. The forms that
//! cannot be made here are named as not run, with the reason.

mod planted;
mod rollouts;

use std::sync::{Arc, OnceLock};

use innkeeper_test_exactness::{FORMS, Form, Ward};
use innkeeper_test_local::{soak, trial};
use libtest_mimic::Arguments;

/// A manager that starts when the first test wants it.
struct Shared {
    form: Form,
    ward: OnceLock<Result<Ward, String>>,
}

impl Shared {
    /// Long runs of the further forms have not been seen to end without a false alarm yet: they are
    /// for whoever looks at them, and decide nothing.
    fn is_due(&self) -> Result<(), String> {
        let first = (self.form.strategy, self.form.rights) == ("layered", "root");
        match first || soak() {
            true => Ok(()),
            false => Err("this form is fuzzed with INNKEEPER_SOAK=1 only".to_owned()),
        }
    }

    fn ward(&self) -> Result<&Ward, String> {
        self.ward
            .get_or_init(|| Ward::open(self.form))
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// What a test is: it panics when it fails, and returns why when it cannot run.
type Test = fn(&Ward) -> Result<(), String>;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![trial("planted", planted::every_fault_is_found)];
    for form in FORMS {
        let shared = Arc::new(Shared {
            form,
            ward: OnceLock::new(),
        });
        for (name, test) in rollouts::TESTS {
            let shared = Arc::clone(&shared);
            trials.push(trial(format!("{form}::{name}"), move || {
                shared.is_due()?;
                test(shared.ward()?)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
