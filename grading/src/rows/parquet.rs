//! Rows in parquet, through its row interface.

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use serde_json::{Map, Number, Value};

/// All rows as JSON objects.
pub(super) fn rows(bytes: Vec<u8>) -> Result<Vec<Value>, ParquetError> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
    reader
        .get_row_iter(None)?
        .map(|row| {
            let row = row?;
            let fields = row
                .get_column_iter()
                .map(|(name, field)| (name.clone(), value(field)));
            Ok(Value::Object(fields.collect()))
        })
        .collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(*value),
        Field::Byte(value) => Value::from(*value),
        Field::Short(value) => Value::from(*value),
        Field::Int(value) | Field::Date(value) | Field::TimeMillis(value) => Value::from(*value),
        Field::Long(value) | Field::TimestampMillis(value) | Field::TimestampMicros(value) => {
            Value::from(*value)
        }
        Field::UByte(value) => Value::from(*value),
        Field::UShort(value) => Value::from(*value),
        Field::UInt(value) => Value::from(*value),
        Field::ULong(value) => Value::from(*value),
        Field::Float(value) => {
            Number::from_f64(f64::from(*value)).map_or(Value::Null, Value::Number)
        }
        Field::Double(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        Field::Str(text) => Value::String(text.clone()),
        Field::Bytes(bytes) => Value::String(String::from_utf8_lossy(bytes.data()).into_owned()),
        Field::Group(row) => Value::Object(
            row.get_column_iter()
                .map(|(name, field)| (name.clone(), value(field)))
                .collect::<Map<_, _>>(),
        ),
        Field::ListInternal(list) => Value::Array(list.elements().iter().map(value).collect()),
        // No column of a task row has another type; its text is better than a refusal.
        other => Value::String(other.to_string()),
    }
}
