# Files of pytest, and its options, as a ctest. Programs are in TB_BUILD_DIR; it is skipped where one of its cases is
# (conftest.py).
function(tb_pytest name)
  add_test(NAME ${name} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    COMMAND ${CMAKE_SOURCE_DIR}/.venv/bin/python -m pytest -rs -p no:cacheprovider ${ARGN})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "TB_BUILD_DIR=${CMAKE_BINARY_DIR};TB_SKIP_STATUS=77")
endfunction()

# One of a driver: more ranks than a small machine has cores, containers that run as root. What the MPI library leaves
# allocated at exit is not ours, and leaks can't be looked for under strace.
function(tb_driver_pytest name file)
  tb_pytest(${name} ${file})
  set_tests_properties(${name} PROPERTIES LABELS mpi PROCESSORS 3 COST 500 TIMEOUT 600)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "TB_MPIEXEC=${MPIEXEC_EXECUTABLE}" OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 ASAN_OPTIONS=detect_leaks=0)
endfunction()
