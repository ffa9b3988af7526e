//! Imports an image into a store and prints it as JSON: `import STORE SOURCE [NAME]`.

use std::process::ExitCode;

use innkeeper_images::{Error, Image, Source, Store};

fn import(store: &str, source: &str, name: Option<&str>) -> Result<Image, Error> {
    let source = Source::parse(source)?;
    Store::open(store)?.import(&source, name, &mut ())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (store, source, name) = match arguments.as_slice() {
        [store, source] => (store, source, None),
        [store, source, name] => (store, source, Some(name.as_str())),
        _ => {
            eprintln!("usage: import STORE SOURCE [NAME]");
            return ExitCode::from(2);
        }
    };
    match import(store, source, name) {
        Ok(image) => {
            println!(
                "{}",
                serde_json::to_string_pretty(&image).unwrap_or_default()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
