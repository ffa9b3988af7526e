//! A manager of one form of slot, with an image in which sandboxes can be observed.

use std::sync::atomic::{AtomicU64, Ordering};

use innkeeper_test_cli::{Inn, Rootfs};
use innkeeper_test_local::{Guest, soak, static_execd};
use serde_json::{Value, json};

use crate::form::Form;
use crate::program::{execd, program};

/// Where the image has the program that observes.
pub(crate) const PROGRAM: &str = "/usr/bin/innkeeper-guest";

/// Programs that rollouts use beside those that every test image has.
const PROGRAMS: [&str; 14] = [
    "chattr", "chown", "dd", "find", "mkfifo", "mknod", "nohup", "readlink", "setfacl", "setfattr",
    "setsid", "sync", "tail", "truncate",
];

/// How a manager refuses a form that this machine, or this user, cannot have.
const REFUSALS: [&str; 2] = ["cannot be run here: ", "and this manager is root"];

/// The manager and its image.
pub struct Ward {
    inn: Inn,
    form: Form,
    asked: AtomicU64,
}

impl Ward {
    /// Starts a manager.
    ///
    /// # Errors
    /// Why slots of this form cannot be made here.
    pub fn open(form: Form) -> Result<Self, String> {
        Self::on(Inn::new(), form)
    }

    /// Starts a manager on this place.
    ///
    /// # Errors
    /// Why slots of this form cannot be made here.
    ///
    /// # Panics
    /// When the manager does not start for any other reason.
    pub fn on(mut inn: Inn, form: Form) -> Result<Self, String> {
        if form.is_in_place() && !soak() {
            let sentence = "what two fresh containers of this form differ in is not listed yet: it \
                is compared with INNKEEPER_SOAK=1 only";
            return Err(sentence.to_owned());
        }
        if form.runs_in_the_image() && static_execd().is_err() {
            inn = inn.with_execd(execd());
        }
        if let Err(said) = inn.try_serve(&["--strategy", form.strategy, "--rights", form.rights]) {
            return match REFUSALS.iter().any(|words| said.contains(words)) {
                true => Err(said.trim().trim_start_matches("innkeeper: ").to_owned()),
                false => panic!("{form}: {said}"),
            };
        }
        let rootfs = Rootfs::make(&inn.path("image"))
            .with(&PROGRAMS)
            .with_program(&program(), PROGRAM);
        let folder = rootfs.folder.to_str().expect("a plain path");
        inn.run(["image", "import", folder, "--name", "plain"]).ok();
        let ward = Self {
            inn,
            form,
            asked: AtomicU64::new(0),
        };
        if !form.is_complete() {
            ward.probe()?;
        }
        Ok(ward)
    }

    /// Whether two sandboxes of one template can be had.
    fn probe(&self) -> Result<(), String> {
        let asked = [(); 2].map(|()| self.inn.run(["lease", "plain", "--json"]));
        let mut refusal = Ok(());
        for ran in asked {
            if ran.code == 0 {
                let id = ran.json()["lease"].as_str().expect("an id").to_owned();
                self.inn.run(["return", &id, "--discard", "--wait"]).ok();
            } else {
                refusal = Err(ran
                    .stderr
                    .trim()
                    .trim_start_matches("innkeeper: ")
                    .to_owned());
            }
        }
        refusal
    }

    /// The form of its slots.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Its place.
    pub fn inn(&self) -> &Inn {
        &self.inn
    }

    /// A template that no other test uses, with these fields. Its slots carry nothing else.
    pub fn template(&self, test: &str, more: &Value) -> Value {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut template = json!({
            "env": {"INNKEEPER_TEST": format!("{test}-{number}")},
            "workdir": "/testbed",
            "supply": {"carry": "own"},
        });
        let fields = template.as_object_mut().expect("an object");
        for (name, value) in more.as_object().into_iter().flatten() {
            fields.insert(name.clone(), value.clone());
        }
        template
    }

    /// A lease of a sandbox of the image.
    #[track_caller]
    pub fn lease(&self, test: &str, template: &Value) -> Guest<'_> {
        let guest = Guest::lease(&self.inn, test, "plain", template);
        assert_eq!(
            guest.lease["strategy"], self.form.strategy,
            "{}",
            guest.lease
        );
        assert_eq!(guest.lease["rights"], self.form.rights, "{}", guest.lease);
        guest
    }
}
