//! Capture and verification on real file systems and real processes. Run as root.

mod attributes;
mod ground;
mod inplace;
mod layered;
mod observed;
mod overlay;
mod property;
mod same;
mod scratch;
mod shapes;
mod slices;
mod sys;
mod verdict;
