// The compiler stops at the first file whose imports are missing. This file comes before all
// others, so that its error is shown, too.
#if !Client && !Programs
  #error("ConnectivityClient needs a trait of its package: .package(…, traits: [\"Client\"])")
#endif
