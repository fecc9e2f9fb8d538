// The page without data: see page_file.h.
  .section .rodata
  .globl dlhook_page_html
  .globl dlhook_page_html_end
dlhook_page_html:
  .incbin DLHOOK_PAGE_HTML
dlhook_page_html_end:
  .section .note.GNU-stack, "", %progbits
