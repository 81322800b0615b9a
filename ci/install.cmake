# What a site needs to run programs under tiers, to link with the engine, and to run the suite; ci/install.py adds the command
# `tierbench` with its Python.
# Always lib/, as tierctl finds the adapter at ../lib from its own place; the tree may be moved.
configure_file(engine/tierbench.pc.in tierbench.pc @ONLY)
install(TARGETS tierbench LIBRARY DESTINATION lib)
install(TARGETS tierbench_preload tierbench_trace LIBRARY DESTINATION lib)
if(TARGET tierbench_mpi)
  install(TARGETS tierbench_mpi LIBRARY DESTINATION lib)
endif()
foreach(program tierd tierctl tb-ior tb-mdtest tb-metadata tb-find tb-vpic tb-hacc tb-forge tb-alternate tb-reread tb-h5units)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()
install(PROGRAMS ${CMAKE_BINARY_DIR}/bin/spectral_wait.py DESTINATION bin)
install(DIRECTORY engine/include/tierbench DESTINATION include)
install(FILES ${CMAKE_BINARY_DIR}/tierbench.pc DESTINATION lib/pkgconfig)
# The suite finds its configurations beside it, as in a checkout.
install(DIRECTORY configs reframe_tests DESTINATION share/tierbench USE_SOURCE_PERMISSIONS
  PATTERN tests EXCLUDE PATTERN __pycache__ EXCLUDE PATTERN .* EXCLUDE)
install(DIRECTORY results/published DESTINATION share/tierbench/results)
install(FILES README.md LICENSE DESTINATION share/doc/tierbench)
install(DIRECTORY docs DESTINATION share/doc/tierbench)
install(FILES engine/examples/hello.c DESTINATION share/doc/tierbench/examples)
install(FILES ${CMAKE_BINARY_DIR}/tierctl.1 DESTINATION share/man/man1)
install(FILES ${CMAKE_BINARY_DIR}/tierctl.bash DESTINATION share/bash-completion/completions RENAME tierctl)
