//! A test as the harness sees it.

use libtest_mimic::{Completion, Trial};

/// A test that panics when it fails, and returns why when it cannot run here: the harness then
/// counts it neither as passed nor as failed, and a line names it with the reason.
pub fn trial(
    name: impl Into<String>,
    test: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::ignorable_test(name.clone(), move || {
        let fit = innkeeper_test_cli::unfit().map_or(Ok(()), Err);
        Ok(match fit.and_then(|()| test()) {
            Ok(()) => Completion::Completed,
            Err(reason) => {
                println!("not run: {name}: {reason}");
                Completion::ignored_with(reason)
            }
        })
    })
}
