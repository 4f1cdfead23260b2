//! Transforms: elements to plain byte planes that an entropy coder likes better, and back.
